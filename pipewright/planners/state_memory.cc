#include "pipewright/planners/state_memory.h"

#include <algorithm>
#include <set>

namespace pipewright {
namespace {

// Of the layers first..end-1; one that several of them share counts once.
Bytes weights_of(const Profile& profile, int first, int end) {
  std::set<ParameterId> seen;
  Bytes sum;
  for (int l = first; l < end; ++l)
    for (ParameterId id : profile.layers[LayerId(l).index()].parameters)
      if (seen.insert(id).second) sum += profile.parameters[id.index()].bytes;
  return sum;
}

bool holds_all_gradients(const Pipeline& pipeline, const PipelineStage& stage,
                         const Problem& problem) {
  const int replicas = static_cast<int>(stage.devices.size());
  const int microbatches = problem.minibatch / pipeline.microbatch;
  return replicas == 1 || (pipeline.replication == Replication::Split
                               ? microbatches
                               : microbatches / replicas) >= 2;
}

}  // namespace

bool states_exceed_memory(const Pipeline& pipeline, const Problem& problem) {
  if (pipeline.stages_per_worker != 1) return false;
  int first = 0;
  for (const PipelineStage& stage : pipeline.stages) {
    if (stage.backward_end >= 0 && stage.backward_end != stage.end)
      return false;
    const int copies = problem.optimizer_words +
                       (holds_all_gradients(pipeline, stage, problem) ? 2 : 1);
    const Bytes state =
        weights_of(*problem.profile, first, stage.end) * std::int64_t{copies};
    for (DeviceId device : stage.devices)
      if (state > problem.memory_of(device)) return true;
    first = stage.end;
  }
  return false;
}

}  // namespace pipewright
