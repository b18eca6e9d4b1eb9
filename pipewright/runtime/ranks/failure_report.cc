#include "pipewright/runtime/ranks/failure_report.h"

#include <unistd.h>

#include "pipewright/base/files.h"
#include "pipewright/base/json.h"
#include "pipewright/runtime/ranks/agreement.h"

namespace pipewright {
namespace {

Json to_json(const PastAction& action) {
  Json json = Json::object();
  json.set("seconds", action.since_start.value());
  json.set("worker", action.place.worker.value);
  json.set("action", to_text(action.place));
  return json;
}

std::filesystem::path report_file(const std::filesystem::path& run, int rank) {
  return run / ("failure_" + std::to_string(rank) + ".json");
}

}  // namespace

void write_failure(const std::filesystem::path& run, int rank,
                   const Error& error, int signal, const Progress& progress) {
  std::error_code ignored;
  if (run.empty() || !std::filesystem::is_directory(run, ignored)) return;
  Json json = Json::object();
  json.set("format", "pipewright/failure").set("version", 1);
  json.set("rank", rank).set("host", host_name());
  json.set("process", static_cast<std::int64_t>(::getpid()));
  json.set("exit_code", static_cast<int>(error.code)).set("signal", signal);
  json.set("error", error.to_text());
  json.set("message", error.message).set("where", error.where);
  json.set("hint", error.hint);
  Json actions = Json::array();
  for (const PastAction& action : progress.last_actions())
    actions.push(to_json(action));
  json.set("last_actions", std::move(actions));
  static_cast<void>(write_file(report_file(run, rank), json.to_text()));
}

void remove_failure(const std::filesystem::path& run, int rank) {
  std::error_code ignored;
  if (!run.empty()) std::filesystem::remove(report_file(run, rank), ignored);
}

}  // namespace pipewright
