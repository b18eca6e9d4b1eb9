// What the page draws of a run's metrics, as JSON; the keys are in
// docs/reference/commands/report.md.

#pragma once

#include "cli/report/run_metrics.h"
#include "pipewright/base/json.h"
#include "pipewright/base/units.h"

namespace pipewright::cli {

// Loss, rate, speed and bubble over the steps, and the evaluations. Long runs
// are thinned out.
Json curves_json(const RunMetrics& metrics);

// Over the pieces: how busy each worker is and its memory, each stage's
// learning rate. Of many workers the lowest, the mean and the highest.
Json pieces_json(const RunMetrics& metrics);

// In the last piece.
Json workers_json(const RunMetrics& metrics);
Json stages_json(const RunMetrics& metrics);

// The last of them.
Json warnings_json(const RunMetrics& metrics);

Seconds median_step(const RunMetrics& metrics);

}  // namespace pipewright::cli
