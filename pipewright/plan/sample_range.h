// Which samples of a microbatch a replica of a stage computes. Lowering gives
// every operation and every message its range; nothing after it asks a plan.

#pragma once

#include <compare>
#include <cstdint>

#include "pipewright/plan/plan.h"

namespace pipewright {

struct SampleRange {
  std::int32_t first = 0, end = 0;
  bool empty() const { return end <= first; }
  auto operator<=>(const SampleRange&) const = default;
};

// Of one of the stage's workers, by its place in their list: all samples where
// replicas take turns, else as many as the stage's `samples` say, or equally
// many.
SampleRange samples_of(const Plan& plan, const Stage& stage, int replica);

}  // namespace pipewright
