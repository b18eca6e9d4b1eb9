// What the workers of a process leave behind after a run, and how the leader
// gets that of all processes.

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
  // Whether all workers can go back to their optimizers' state before it.
  bool is_remembered = true;
  Seconds duration;
  std::vector<PartialLoss> losses;
  std::vector<Span> spans;
  std::vector<std::pair<WorkerId, Bytes>> memory;  // at its peak
};

// The leader gets losses, spans and memory of all processes; all get the
// failures of any, the newest versions and the longest duration.
RunReport joined(Transport& transport, RunReport mine);

}  // namespace pipewright
