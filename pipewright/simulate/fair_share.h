// Max-min fair rates: how flows divide what they share.
//
// Every flow gets as much as its own limit and its pools allow, and nobody
// could get more without taking it from someone who has less. A pool whose
// flows, each at its limit, ask for no more than it has holds nobody back; so
// what begins or ends there changes nobody else's rate, and in other pools it
// changes only the rates of those who are tied to it through full ones.

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

// Rates of flows that come and go; they are called by number.
class FairShares {
 public:
  FairShares(const std::vector<double>& pools, std::size_t num_flows);

  // `limit` is of the flow's own link, in bytes per second; it may be infinite
  // where a pool bounds it. The uses must outlive the flow.
  void begin(std::int32_t flow, double limit, std::span<const PoolUse> uses);
  void end(std::int32_t flow);

  // Divides anew after some began or ended. Answers with those whose rate is
  // another than before; of one that began it was 0.
  const std::vector<std::int32_t>& settle();

  double rate(std::int32_t flow) const;

 private:
  struct Flow {
    double limit = 0;
    std::span<const PoolUse> uses;
    double rate = 0, before = 0;
    bool is_open = false;
  };
  struct Pool {
    double bandwidth = 0;
    std::vector<std::int32_t> flows;  // that use it now
    bool is_full = false;    // its flows at their limits would ask for more
    bool is_dirty = false;   // some began or ended since it was last divided
    bool is_shared = false;  // is being divided
    double left = 0;
    double claimed = 0;  // by open flows, per unit of rate
    double level = 0;    // left / claimed
  };

  Pool& pool(const PoolUse& use);
  void touch(std::int32_t pool);
  double demand(const Pool& pool, std::int32_t number) const;
  void open(std::int32_t flow);
  void open_all_of(Pool& pool);
  void open_tied();
  void divide();
  double next_level();
  bool is_held(const Flow& flow, double level) const;
  void close(Flow& flow, double level);

  std::vector<Pool> pools_;
  std::vector<Flow> flows_;
  std::vector<std::int32_t> dirty_;   // pools
  std::vector<std::int32_t> began_;   // flows
  std::vector<std::int32_t> open_;    // flows whose rates are being found
  std::vector<std::int32_t> shared_;  // pools that they divide
  std::vector<std::int32_t> changed_;
};

}  // namespace pipewright
