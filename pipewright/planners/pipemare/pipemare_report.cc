#include "pipewright/planners/pipemare/pipemare_report.h"

#include <algorithm>
#include <cmath>

#include "pipewright/base/index.h"

namespace pipewright {
namespace {

int first_layer(const std::vector<int>& ends, int stage) {
  return stage == 0 ? 0 : ends[at(stage - 1)];
}
int end_layer(const std::vector<int>& ends, int stage) {
  return ends[at(stage)];
}

// Slots between the forward and the backward of a microbatch in a stage that is
// `distance` stages before the last.
int delay(int distance, Slots slots) {
  return slots == Slots::Alternate ? distance : 2 * distance + 1;
}
// Microbatches in flight in that stage.
int num_in_flight(int distance, Slots slots) {
  return slots == Slots::Alternate ? distance + 1 : 2 * distance + 1;
}

Bytes scaled(Bytes bytes, double factor) {
  return Bytes(
      static_cast<std::int64_t>(static_cast<double>(bytes.value()) * factor));
}

std::vector<Bytes> kept_of(const CostTable& costs,
                           const std::vector<int>& ends) {
  std::vector<Bytes> kept;
  for (int s = 0; s < static_cast<int>(ends.size()); ++s)
    kept.push_back(costs.kept(first_layer(ends, s), end_layer(ends, s)));
  return kept;
}
std::vector<Bytes> inputs_of(const CostTable& costs,
                             const std::vector<int>& ends) {
  std::vector<Bytes> inputs;
  for (int s = 0; s < static_cast<int>(ends.size()); ++s)
    inputs.push_back(costs.crossing(first_layer(ends, s)));
  return inputs;
}

// The first stage of a segment keeps its input for the whole round trip. A
// stage recomputes just in time for the later stages of the segment.
Bytes recompute_bytes(const std::vector<Bytes>& kept,
                      const std::vector<Bytes>& inputs, int segment,
                      Slots slots) {
  const int P = static_cast<int>(kept.size());
  Bytes sum;
  for (int first = 0; first < P; first += segment) {
    const int last = std::min(P, first + segment) - 1;
    sum +=
        inputs[at(first)] * std::int64_t{num_in_flight(P - 1 - first, slots)};
    for (int s = first; s <= last; ++s)
      sum += kept[at(s)] * std::int64_t{num_in_flight(last - s, slots)};
  }
  return sum;
}

}  // namespace

DepthCosts depth_costs(const CostTable& costs, const std::vector<int>& ends,
                       int num_microbatches, int optimizer_words, Slots slots) {
  const int P = static_cast<int>(ends.size()), N = num_microbatches;
  Bytes once, stale;  // parameters, and their mean extra copies
  Bytes gpipe, drained, ahead;
  const std::vector<Bytes> kept_by = kept_of(costs, ends);
  for (int s = 0; s < P; ++s) {
    const int first = first_layer(ends, s), end = end_layer(ends, s);
    const Bytes parameters = costs.parameters(first, end);
    const Bytes kept = kept_by[at(s)];
    const int distance = P - 1 - s;
    once += parameters;
    stale +=
        scaled(parameters, static_cast<double>(delay(distance, slots)) / N);
    gpipe += kept * std::int64_t{N};
    drained += kept * std::int64_t{std::min(N, distance + 1)};
    ahead += kept * std::int64_t{num_in_flight(distance, slots)};
  }
  DepthCosts result;
  Bytes least = Bytes::max();
  const std::vector<Bytes> inputs = inputs_of(costs, ends);
  // The best length is near the square root of the number of stages.
  const int longest =
      std::min(P, 8 * static_cast<int>(std::ceil(std::sqrt(P))));
  for (int segment = 1; segment <= longest; ++segment) {
    const Bytes bytes = recompute_bytes(kept_by, inputs, segment, slots);
    if (bytes >= least) continue;
    least = bytes;
    result.segment = segment;
  }
  // Weights, gradients and optimizer state.
  const Bytes base = once * std::int64_t{2 + optimizer_words};
  const double drains = static_cast<double>(N) / (N + P - 1);
  result.methods = {
      {"sync (gpipe)", base, gpipe, drains},
      {"sync (1f1b)", base, drained, drains},
      {"stash", base + stale, ahead, 1},
      {"2bw", base + once, ahead, 1},
      {"pipemare", base + once, ahead, 1},
      {"pipemare + recompute", base + once, least, 1},
  };
  return result;
}

}  // namespace pipewright
