#include "pipewright/plan/sample_range.h"

#include <numeric>

namespace pipewright {

SampleRange samples_of(const Plan& plan, const Stage& stage, int replica) {
  if (plan.replication != Replication::Split) return {0, plan.microbatch};
  if (stage.samples.empty()) {
    const auto end_of = [&](std::int64_t count) {
      return static_cast<std::int32_t>(
          plan.microbatch * count /
          static_cast<std::int64_t>(stage.workers.size()));
    };
    return {end_of(replica), end_of(replica + 1)};
  }
  const auto own = stage.samples.begin() + replica;
  const int first = std::accumulate(stage.samples.begin(), own, 0);
  return {first, first + *own};
}

}  // namespace pipewright
