#include "cli/calibrate/measured_run.h"

#include <algorithm>

#include "pipewright/simulate/simulate.h"

namespace pipewright::cli {

Result<Prediction> predicted(const MeasuredRun& run,
                             const Correction& correction, bool with_memory) {
  const LoweredPlan& lowered = run.lowered;
  PIPEWRIGHT_TRY(const Cluster cluster, corrected(lowered.cluster, correction));
  PIPEWRIGHT_TRY(const Costs costs,
                 costs_of(lowered.program, lowered.profile, cluster));
  SimulateOptions options;
  options.keep_spans = false;
  options.track_memory = with_memory;
  const Timeline timeline = simulate(lowered.program, costs, options);
  Prediction prediction;
  prediction.step = timeline.step_seconds;
  for (const WorkerSummary& worker : timeline.workers)
    prediction.memory = std::max(prediction.memory, worker.peak.total());
  return prediction;
}

}  // namespace pipewright::cli
