// What the workers of a rank report after a run, and how rank 0 gets the
// reports of all ranks.

#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pipewright/base/error.h"
#include "pipewright/base/units.h"
#include "pipewright/runtime/channels/transport.h"
#include "pipewright/runtime/execution/worker.h"

namespace pipewright {

struct RunReport {
  std::optional<Error> failure;     // the first
  std::optional<Error> not_finite;  // weights at the end
  // By ParameterId: the newest version that any worker has, counted in the run.
  std::vector<std::int32_t> versions;
  // Whether all workers can restore their optimizers' state before the run.
  bool is_remembered = true;
  Seconds duration;
  std::vector<PartialLoss> losses;
  std::vector<Span> spans;
  std::vector<std::pair<WorkerId, Bytes>> memory;  // at its peak
};

// Rank 0 gets the losses, spans and memory of all ranks; every rank gets the
// failures of any, the newest versions and the longest duration.
RunReport combine_reports(Transport& transport, RunReport mine);

}  // namespace pipewright
