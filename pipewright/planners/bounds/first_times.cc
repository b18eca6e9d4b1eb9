#include "pipewright/planners/bounds/first_times.h"

#include <algorithm>

#include "pipewright/planners/bounds/least_times.h"

namespace pipewright {
namespace {

// The shortest times of slices of any size, not per sample.
KindTimes shortest_times(const Problem& problem) {
  KindTimes shortest(problem.profile->layers.size());
  const int kinds = static_cast<int>(problem.cluster->kinds().size());
  for (int k = 0; k < kinds; ++k)
    visit_least_times(problem, k, 1, largest_microbatch(problem),
                      [&](std::size_t l, const LayerTimes& times, int) {
                        shortest[l].forward = std::min(shortest[l].forward,
                                                       times.forward.value());
                        shortest[l].input = std::min(
                            shortest[l].input, times.backward_input.value());
                      });
  return shortest;
}

}  // namespace

FirstTimes first_times(const Problem& problem) {
  const auto& layers = problem.profile->layers;
  const KindTimes shortest = shortest_times(problem);
  FirstTimes first;
  first.forward_starts.resize(layers.size(), 0);
  for (std::size_t l = 0; l < layers.size(); ++l) {
    for (LayerId input : layers[l].inputs)
      first.forward_starts[l] =
          std::max(first.forward_starts[l], first.forward_ends[input.index()]);
    first.forward_ends.push_back(first.forward_starts[l] + shortest[l].forward);
  }
  first.backward_starts = first.forward_ends;
  for (std::size_t l = layers.size(); l-- > 0;)
    for (LayerId input : layers[l].inputs) {
      double& start = first.backward_starts[input.index()];
      start = std::max(start, first.backward_starts[l] + shortest[l].input);
    }
  return first;
}

}  // namespace pipewright
