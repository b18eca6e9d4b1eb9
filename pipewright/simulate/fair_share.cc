#include "pipewright/simulate/fair_share.h"

#include <algorithm>
#include <limits>

namespace pipewright {
namespace {

std::int32_t pool_of(const Link::Use& use,
                     const std::vector<SharedResource>& resources) {
  const bool second =
      use.upstream &&
      resources[static_cast<std::size_t>(use.resource)].duplex == Duplex::Full;
  return 2 * use.resource + (second ? 1 : 0);
}

struct Pool {
  double left = 0;
  double claimed = 0;  // by flows that are not yet settled, per unit of rate
};

class WaterFilling {
 public:
  WaterFilling(const std::vector<Flow*>& flows,
               const std::vector<double>& pools)
      : open_(flows) {
    for (double bandwidth : pools) pools_.push_back({bandwidth, 0});
    for (const Flow* flow : open_)
      for (const PoolUse& use : flow->uses) pool(use).claimed += use.times;
  }

  // Raises all open rates together until a link or a pool is exhausted, settles
  // those it holds back, and goes on with the others.
  void run() {
    while (!open_.empty()) {
      double level = std::numeric_limits<double>::infinity();
      for (const Flow* flow : open_) level = std::min(level, highest(*flow));
      const auto held = std::stable_partition(
          open_.begin(), open_.end(),
          [&](Flow* flow) { return highest(*flow) > level; });
      for (auto flow = held; flow != open_.end(); ++flow) settle(**flow, level);
      open_.erase(held, open_.end());
    }
  }

 private:
  Pool& pool(const PoolUse& use) {
    return pools_[static_cast<std::size_t>(use.pool)];
  }

  double highest(const Flow& flow) {
    double rate = flow.limit;
    for (const PoolUse& use : flow.uses)
      rate = std::min(rate, pool(use).left / pool(use).claimed);
    return rate;
  }

  void settle(Flow& flow, double level) {
    flow.rate = level;
    for (const PoolUse& use : flow.uses) {
      pool(use).left -= level * use.times;
      pool(use).claimed -= use.times;
    }
  }

  std::vector<Flow*> open_;
  std::vector<Pool> pools_;
};

}  // namespace

std::vector<double> pools_of(const std::vector<SharedResource>& resources) {
  std::vector<double> pools;
  for (const SharedResource& resource : resources)
    pools.insert(pools.end(), 2, resource.bandwidth.value());
  return pools;
}

void add_pool_uses(const std::vector<Link::Use>& uses,
                   const std::vector<SharedResource>& resources,
                   std::vector<PoolUse>& sum) {
  std::vector<std::int32_t> pools;
  for (const Link::Use& use : uses) pools.push_back(pool_of(use, resources));
  std::sort(pools.begin(), pools.end());
  pools.erase(std::unique(pools.begin(), pools.end()), pools.end());
  for (std::int32_t pool : pools) {
    const auto place =
        std::lower_bound(sum.begin(), sum.end(), PoolUse{pool, 0});
    if (place != sum.end() && place->pool == pool)
      place->times += 1;
    else
      sum.insert(place, {pool, 1});
  }
}

void share_fairly(const std::vector<Flow*>& flows,
                  const std::vector<double>& pools) {
  WaterFilling(flows, pools).run();
}

}  // namespace pipewright
