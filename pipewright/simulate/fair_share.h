// Max-min fair rates: how flows divide what they share.
//
// Every flow gets as much as its own limit and its pools allow, and nobody
// could get more without taking it from someone who has less.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pipewright/cluster/cluster.h"

namespace pipewright {

// A resource's bandwidth in one direction, or in both if it is half duplex. A
// flow takes `times` its rate from it: more than one where a ring of links
// passes it more than once.
struct PoolUse {
  std::int32_t pool = 0;
  double times = 1;
  auto operator<=>(const PoolUse&) const = default;
};

// Bytes per second of the two pools of each resource.
std::vector<double> pools_of(const std::vector<SharedResource>& resources);

// Adds what one link uses, each pool once, to `sum`, which is kept by pool.
void add_pool_uses(const std::vector<Link::Use>& uses,
                   const std::vector<SharedResource>& resources,
                   std::vector<PoolUse>& sum);

struct Flow {
  double limit = 0;  // bytes per second of its own link; may be infinite
  std::span<const PoolUse> uses;
  double rate = 0;  // the answer
};

// Sets the rate of every flow.
void share_fairly(const std::vector<Flow*>& flows,
                  const std::vector<double>& pools);

}  // namespace pipewright
