#include "pipewright/planners/devices_needed.h"

#include <algorithm>

#include "pipewright/base/index.h"
#include "pipewright/planners/cost_table.h"

namespace pipewright {
namespace {

Bytes smallest_memory(const Problem& problem) {
  Bytes smallest = Bytes::max();
  for (int d = 0; d < problem.cluster->num_devices(); ++d)
    smallest = std::min(smallest, problem.memory_of(DeviceId(d)));
  return smallest;
}

std::int64_t weight_versions(Method method, std::int64_t in_flight) {
  switch (method) {
    case Method::Stash:
    case Method::VerticalSync:
      return in_flight;
    case Method::TwoBw:
      return 2;
    case Method::Sync:
    case Method::PipeMare:
    case Method::Naive:
      break;
  }
  return 1;
}

struct StageMemory {
  const Problem& problem;
  const CostTable& costs;
  bool recompute;

  // Of the layers first..end-1, which keep `kept`, as a stage with
  // `stages_after` stages after it.
  Bytes need(int first, int end, Bytes kept, int stages_after) const {
    const std::int64_t microbatches =
        problem.minibatch / std::max(1, costs.microbatch());
    const std::int64_t in_flight =
        std::min<std::int64_t>(microbatches, stages_after + 1);
    const std::int64_t versions = weight_versions(problem.method, in_flight);
    const Bytes weights =
        costs.parameters(first, end) * (versions + 1 + problem.optimizer_words);
    // One microbatch received and one sent at each end.
    const Bytes buffers = (costs.crossing(first) + costs.crossing(end)) * 2;
    return weights + buffers +
           (recompute ? costs.crossing(first) * in_flight + kept
                      : kept * in_flight);
  }
};

}  // namespace

int devices_needed(const Problem& problem, bool recompute) {
  if (problem.microbatches.empty()) return 0;
  const int smallest = *std::min_element(problem.microbatches.begin(),
                                         problem.microbatches.end());
  const auto costs =
      CostTable::create(*problem.profile, *problem.cluster, smallest);
  if (!costs) return 0;
  const StageMemory memory{problem, *costs, recompute};
  const Bytes limit = smallest_memory(problem);
  // From the last stage to the first: what a stage keeps depends on the number
  // of stages after it, so filling each stage completely gives the fewest.
  int stages = 0;
  for (int end = problem.profile->num_layers(); end > 0; ++stages) {
    const std::vector<Bytes> kept = costs->kept_until(end, limit);
    int first = end;
    while (first > 0 && at(end - first + 1) < kept.size() &&
           memory.need(first - 1, end, kept[at(end - first + 1)], stages) <=
               limit)
      --first;
    if (first == end) return 0;
    end = first;
  }
  return stages;
}

}  // namespace pipewright
