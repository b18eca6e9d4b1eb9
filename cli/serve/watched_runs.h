// Runs that `serve` shows while they go on. Their folders were named on the
// command line; nothing of them is written.

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cli/report/run_report.h"
#include "pipewright/base/json.h"
#include "pipewright/base/result.h"

namespace pipewright::cli {

// All functions may be called from several threads at once.
class WatchedRuns {
 public:
  // A folder need not exist yet.
  explicit WatchedRuns(const std::vector<std::string>& folders);

  std::size_t size() const { return runs_.size(); }
  // Their folders, for the page.
  Json names() const;

  // "version", and "run" as in a report unless the version is `seen`: nothing
  // is new then. Fails with MissingInput for a number that is no run's, and as
  // RunReader::read() does.
  Result<Json> run(std::size_t number, std::int64_t seen);

  // The plan of a run as `report PLAN` shows it. Takes longer than run(), which
  // goes on meanwhile. Fails as run() and RunReader::plan_report() do.
  Result<Json> plan(std::size_t number);

  // All runs in the text format of Prometheus; those that cannot be read are
  // left out.
  std::string metrics();

 private:
  struct Watched {
    explicit Watched(const std::filesystem::path& folder) : reader(folder) {}
    std::mutex mutex, plan_mutex;  // the latter: one report at a time
    RunReader reader;
  };
  Result<Watched*> watched(std::size_t number) const;

  std::vector<std::unique_ptr<Watched>> runs_;
};

}  // namespace pipewright::cli
