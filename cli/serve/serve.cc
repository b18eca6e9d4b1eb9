// pipewright serve: the page, live: plans a problem as it is typed, and shows
// runs while they go on.

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <random>

#include "cli/command.h"
#include "cli/number_in.h"
#include "cli/serve/http_server.h"
#include "pipewright/base/files.h"
#include "pipewright/profile/profile.h"

namespace pipewright::cli {
namespace {

constexpr std::size_t kMinTokenLength = 16;

struct ServeOptions {
  bool ends_with_parent = false;
  std::vector<std::string> runs;
  ServedFiles files;
  HttpOptions http;
};

bool is_local_host(const std::string& host) {
  return host == "127.0.0.1" || host == "localhost" || host == "::1";
}

std::string random_token() {
  constexpr char kDigits[] = "0123456789abcdef";
  std::random_device random;
  std::string token;
  for (int i = 0; i < 32; ++i) token += kDigits[random() % 16];
  return token;
}

// Empty for a token that can stand in an address and cannot be guessed.
std::string refuse_token(const std::string& token) {
  const bool is_plain = std::all_of(token.begin(), token.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
  });
  if (is_plain && token.size() >= kMinTokenLength) return "";
  return "expected at least 16 letters, digits, - or _, found \"" + token +
         "\"";
}

Result<Profile> read_profile(const std::string& file) {
  PIPEWRIGHT_TRY(const std::string text, read_file(file));
  return parse_profile(text, file);
}

Result<void> check_files(const ServeOptions& options) {
  const ServedFiles& files = options.files;
  for (const std::string& run : options.runs)
    if (!is_run_folder(run) && !options.ends_with_parent)
      return Error{ErrorCode::MissingInput,
                   "there is no folder " + run,
                   {},
                   "give folders that `train --run` made",
                   {}};
  for (const std::string& name : files.models)
    if (auto model = load_model(name); !model) return model.error();
  for (const std::string& name : files.profiles)
    if (auto profile = read_profile(name); !profile) return profile.error();
  for (const std::string& name : files.clusters)
    if (auto cluster = load_cluster(name); !cluster) return cluster.error();
  return {};
}

std::string address_of(const HttpOptions& options, int port) {
  const bool is_v6 = options.host.find(':') != std::string::npos;
  return "http://" + (is_v6 ? "[" + options.host + "]" : options.host) + ":" +
         std::to_string(port) + "/" +
         (options.token.empty() ? "" : "?token=" + options.token);
}

// For a training (cli/train/watching.h): ends when it does, and leaves the
// cores to it.
void follow_parent() {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() == 1) ::_exit(0);
  static_cast<void>(!::nice(10));
}

void run_serve(ServeOptions options, Exit& exit) {
  if (options.ends_with_parent) follow_parent();
  if (auto fine = check_files(options); !fine)
    return report(fine.error(), exit);
  if (!is_local_host(options.http.host) && options.http.token.empty())
    options.http.token = random_token();
  PlanningService service(options.files);
  WatchedRuns runs(options.runs);
  const auto started = [&](int port) {
    std::cout << address_of(options.http, port)
              << (options.ends_with_parent ? " (while it trains)"
                                           : " (Ctrl-C ends it)")
              << std::endl;
  };
  if (auto served = serve_http(service, runs, options.http, started); !served)
    report(served.error(), exit);
}

}  // namespace

void add_serve(CLI::App& app, Exit& exit) {
  CLI::App* command = app.add_subcommand(
      "serve", "Serve a page that plans as you type and watches runs");
  auto options = std::make_shared<ServeOptions>();
  command->add_option("RUN", options->runs, "Folders of runs to show");
  command->add_option("--model", options->files.models,
                      "Model files that the page may use, beside the zoo");
  command->add_option("--profile", options->files.profiles,
                      "Profile files that the page may use");
  command->add_option("--cluster", options->files.clusters,
                      "Cluster files that the page may use, beside clusters "
                      "such as 4xV100@1GB/s");
  command->add_option("--port", options->http.port, "Port; 0: any that is free")
      ->check(integer_in(0, 65535))
      ->capture_default_str();
  command
      ->add_option("--host", options->http.host,
                   "Address to listen on; any but this machine's own needs a "
                   "token")
      ->capture_default_str();
  command
      ->add_option("--token", options->http.token,
                   "Answers only requests with this token; default with "
                   "--host: a random one, which is printed")
      ->check(refuse_token, "", "");
  command->add_flag("--ends-with-parent", options->ends_with_parent)->group("");
  command->callback([options, &exit] { run_serve(*options, exit); });
}

}  // namespace pipewright::cli
