#include "cli/report/run_state.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <optional>

#include "pipewright/base/files.h"
#include "pipewright/base/json_cursor.h"
#include "pipewright/base/text.h"

namespace pipewright::cli {
namespace {

namespace fs = std::filesystem;

// Longer than a lease lasts without renewal (run_lease.h).
constexpr std::chrono::seconds kLeaseLasts{60};

std::string this_host() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

template <typename Read>
auto read_state_file(const fs::path& file, Read read)
    -> std::optional<decltype(read(std::declval<JsonCursor&>()))> {
  const auto text = read_file(file);
  if (!text) return {};
  auto value = read_json(*text, file.string(), read);
  if (!value) return {};
  return *std::move(value);
}

struct Holder {
  std::string host;
  std::int64_t process = 0;
};

// The process that trains into the folder now.
std::optional<Holder> holder_of(const fs::path& folder) {
  const fs::path file = folder / "lease.json";
  std::error_code failed;
  const auto renewed = fs::last_write_time(file, failed);
  if (failed || fs::file_time_type::clock::now() - renewed > kLeaseLasts)
    return {};
  const auto holder = read_state_file(file, [](JsonCursor& root) {
    return Holder{root.at("host").text(), root.at("process").integer()};
  });
  if (!holder) return {};
  const bool is_gone = holder->host == this_host() &&
                       ::kill(static_cast<pid_t>(holder->process), 0) != 0 &&
                       errno == ESRCH;
  if (is_gone) return {};
  return holder;
}

// A run that a signal ends has saved its steps.
struct Failure {
  std::string error;
  bool is_of_signal = false;
};

Failure read_failure(JsonCursor& root) {
  JsonCursor signal = root.find("signal");  // not of version 0.1
  return {root.at("error").text(), signal.exists()
                                       ? signal.integer() != 0
                                       : root.at("exit_code").integer() == 130};
}

// Of the rank that says that its end was no signal's; otherwise of any.
std::optional<Failure> failure_in(const fs::path& folder) {
  std::optional<Failure> found;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("failure_") || !name.ends_with(".json")) continue;
    const auto failure = read_state_file(entry.path(), read_failure);
    if (failure && (!found || !failure->is_of_signal)) found = failure;
  }
  return found;
}

struct Ending {
  std::int64_t steps = 0, signal = 0;
};

std::string signal_text(std::int64_t number) {
  if (number == SIGINT) return "Ctrl-C (SIGINT)";
  if (number == SIGTERM) return "SIGTERM";
  return "signal " + std::to_string(number);
}

}  // namespace

const char* phase_name(RunPhase phase) {
  constexpr const char* kTexts[] = {"running", "ended", "stopped", "failed",
                                    "broken"};
  return kTexts[static_cast<std::size_t>(phase)];
}

RunState run_state(const fs::path& folder, std::int64_t last_step) {
  if (const auto holder = holder_of(folder))
    return {RunPhase::Running, "Training, by process " +
                                   std::to_string(holder->process) + " on " +
                                   holder->host + "."};
  const auto failure = failure_in(folder);
  if (failure && !failure->is_of_signal)
    return {RunPhase::Failed, "It failed: " + failure->error};
  const auto ending =
      read_state_file(folder / "summary.json", [](JsonCursor& root) {
        return Ending{root.at("steps").integer(), root.at("signal").integer()};
      });
  const std::string steps = with_thousands(last_step) + " steps";
  const bool is_known = ending && ending->steps == last_step;
  if (!is_known && failure)
    return {RunPhase::Stopped, "Stopped: " + failure->error};
  if (!is_known)
    return {RunPhase::Broken, "Its process is gone after " + steps +
                                  "; `train --resume` continues from its last "
                                  "checkpoint, if there is one."};
  if (ending->signal != 0)
    return {RunPhase::Stopped, "Stopped by " + signal_text(ending->signal) +
                                   " after " + steps +
                                   "; `train --resume` continues."};
  return {RunPhase::Ended, "Ended after " + steps + "."};
}

}  // namespace pipewright::cli
