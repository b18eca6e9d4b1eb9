#include "pipewright/runtime/ranks/roll_call.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <thread>

#include "pipewright/base/files.h"
#include "pipewright/base/json_cursor.h"
#include "pipewright/base/text.h"
#include "pipewright/runtime/ranks/agreement.h"

namespace pipewright {
namespace {

struct StartedRank {
  std::string start, host;
  std::int64_t process = 0;
};

std::optional<StartedRank> read_started(const std::filesystem::path& file) {
  const auto text = read_file(file);
  if (!text) return std::nullopt;
  const auto found = read_json(*text, file.string(), [](JsonCursor& root) {
    return StartedRank{root.at("start").text(), root.at("host").text(),
                       root.at("process").integer(1)};
  });
  if (!found) return std::nullopt;
  return *found;
}

bool has_ended(const StartedRank& rank) {
  return rank.host == host_name() &&
         ::kill(static_cast<pid_t>(rank.process), 0) != 0 && errno == ESRCH;
}

}  // namespace

std::filesystem::path RollCall::file_of(int rank) const {
  return run_ / ("start_" + std::to_string(rank) + ".json");
}

void RollCall::answer(int rank) {
  if (run_.empty()) return;
  std::error_code ignored;
  has_made_folder_ = std::filesystem::create_directories(run_, ignored);
  Json json = Json::object();
  json.set("format", "pipewright/start").set("version", 1);
  json.set("start", start_).set("rank", rank).set("host", host_name());
  json.set("process", static_cast<std::int64_t>(::getpid()));
  static_cast<void>(write_file(file_of(rank), json.to_text()));
}

std::string RollCall::absent() const {
  std::vector<std::string> found;
  for (int rank = 0; rank < num_ranks_; ++rank) {
    const std::string name = "rank " + std::to_string(rank);
    const auto started = read_started(file_of(rank));
    if (!started || started->start != start_)
      found.push_back(name);
    else if (has_ended(*started))
      found.push_back(name + " (its process " +
                      std::to_string(started->process) + " on " +
                      started->host + " has ended)");
  }
  return join(found, ", ");
}

void RollCall::end(int rank) const {
  std::error_code ignored;
  if (!run_.empty()) std::filesystem::remove(file_of(rank), ignored);
}

void RollCall::remove_new_folder() const {
  constexpr std::chrono::milliseconds kPause{10};
  if (!has_made_folder_) return;
  std::error_code ignored;
  for (int i = 0; i < 100; ++i, std::this_thread::sleep_for(kPause))
    if (std::filesystem::remove(run_, ignored)) return;
}

}  // namespace pipewright
