// What the stages of a schedule pass to each other: each stage simply follows
// the one before it. F hands its activation to the next stage, B and I hand
// their gradient to the stage before. For whoever runs a schedule without
// layers, transfers and steps; a Program has those, and execution.h its rule.

#pragma once

#include <cstddef>
#include <optional>

#include "pipewright/plan/schedule/compute_order.h"

namespace pipewright {

// The activation or the gradient that a stage makes of a microbatch. With
// replicas several workers make it together.
struct PassedValue {
  bool is_gradient = false;
  StageId stage;
  MicrobatchId microbatch;

  // For a vector that has one element per value of a run.
  std::size_t index(int num_stages, int num_microbatches) const {
    return ((is_gradient ? num_stages : 0) + stage.index()) * num_microbatches +
           microbatch.index();
  }
  auto operator<=>(const PassedValue&) const = default;
};

// What others wait for; nothing of R and W.
inline std::optional<PassedValue> passed_on(const ComputeAction& a) {
  if (a.kind != ComputeKind::Forward && !starts_backward(a.kind)) return {};
  return PassedValue{starts_backward(a.kind), a.stage, a.microbatch};
}

// What it waits for of a neighbouring stage, if it has one.
inline std::optional<PassedValue> read_of_neighbour(const ComputeAction& a,
                                                    int num_stages) {
  const StageId before(a.stage.value - 1), after(a.stage.value + 1);
  if (a.kind == ComputeKind::Forward && !before.is_none())
    return PassedValue{false, before, a.microbatch};
  if (starts_backward(a.kind) && after.value < num_stages)
    return PassedValue{true, after, a.microbatch};
  return {};
}

}  // namespace pipewright
