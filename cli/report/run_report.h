// The data of `report RUN_FOLDER` and of `serve RUN_FOLDER`: metrics over
// steps, and the measured timeline of the last step beside the predicted one.

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "cli/report/run_metrics.h"
#include "cli/report/run_state.h"
#include "cli/report/trace_file.h"
#include "cli/simulate/lowered_plan.h"
#include "pipewright/base/json.h"
#include "pipewright/base/result.h"
#include "pipewright/plan/plan.h"

namespace pipewright::cli {

// Whether this is a folder that `train` made.
bool is_run_folder(const std::filesystem::path& path);

// A run folder that is read again and again while the run goes on; each time
// only what is new.
class RunReader {
 public:
  explicit RunReader(std::filesystem::path folder);

  // Reads what is new, and returns a number that is another one if there was
  // anything. Fails with MissingInput or MalformedInput.
  Result<std::int64_t> read();

  // What was read: "run" of a report, and its figures. Not before read() was
  // successful. `why` is the sentence on why the plan was chosen, if known.
  Json run(const std::optional<Json>& why = {}) const;
  // The plan as `report PLAN` shows it, by the profile and the cluster that the
  // folder has. Fails as reported_plan() does.
  Result<Json> plan_report() const;
  const Plan& plan() const { return *plan_; }
  const RunMetrics& metrics() const { return metrics_.metrics(); }
  const RunState& state() const { return state_; }
  const std::filesystem::path& folder() const { return folder_; }

 private:
  // The last step of a trace file, read when the file has changed.
  struct ReadTrace {
    std::filesystem::file_time_type written{};
    std::optional<TracedStep> step;
    std::vector<Bytes> memory_peaks;
  };
  bool read_trace(const char* file, ReadTrace& trace);
  bool read_costs();
  PlanInputs inputs() const;

  std::filesystem::path folder_;
  std::optional<Plan> plan_;
  std::filesystem::file_time_type plan_written_{};
  RunMetricsReader metrics_;
  ReadTrace measured_, predicted_;
  std::filesystem::file_time_type costs_written_{};
  std::optional<Json> bottleneck_;  // a sentence, where the costs are known
  RunState state_;
  std::int64_t version_ = 0;
};

// The run and, where the folder has its costs, the plan. Fails with
// MissingInput or MalformedInput. Of a run in progress or one that failed, what
// is there is reported.
Result<Json> run_report(const std::filesystem::path& folder);

}  // namespace pipewright::cli
