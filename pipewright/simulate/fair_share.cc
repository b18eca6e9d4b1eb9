#include "pipewright/simulate/fair_share.h"

#include <algorithm>
#include <limits>

#include "pipewright/base/index.h"

namespace pipewright {
namespace {

std::int32_t pool_of(const Link::Use& use,
                     const std::vector<SharedResource>& resources) {
  const bool second =
      use.upstream &&
      resources[static_cast<std::size_t>(use.resource)].duplex == Duplex::Full;
  return 2 * use.resource + (second ? 1 : 0);
}

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

FairShares::FairShares(const std::vector<double>& pools, std::size_t num_flows)
    : pools_(pools.size()), flows_(num_flows) {
  for (std::size_t i = 0; i < pools.size(); ++i) pools_[i].bandwidth = pools[i];
}

double FairShares::rate(std::int32_t flow) const {
  return flows_[at(flow)].rate;
}

FairShares::Pool& FairShares::pool(const PoolUse& use) {
  return pools_[at(use.pool)];
}

void FairShares::touch(std::int32_t pool) {
  if (pools_[at(pool)].is_dirty) return;
  pools_[at(pool)].is_dirty = true;
  dirty_.push_back(pool);
}

void FairShares::begin(std::int32_t flow, double limit,
                       std::span<const PoolUse> uses) {
  flows_[at(flow)] = {limit, uses, 0, 0, false};
  began_.push_back(flow);
  for (const PoolUse& use : uses) {
    pool(use).flows.push_back(flow);
    touch(use.pool);
  }
}

void FairShares::end(std::int32_t flow) {
  std::erase(began_, flow);
  for (const PoolUse& use : flows_[at(flow)].uses) {
    auto& users = pool(use).flows;
    users.erase(std::find(users.begin(), users.end(), flow));
    touch(use.pool);
  }
}

// Summed anew each time, for additions and subtractions would drift.
double FairShares::demand(const Pool& pool, std::int32_t number) const {
  double sum = 0;
  for (std::int32_t flow : pool.flows)
    for (const PoolUse& use : flows_[at(flow)].uses)
      if (use.pool == number) sum += flows_[at(flow)].limit * use.times;
  return sum;
}

void FairShares::open(std::int32_t flow) {
  if (flows_[at(flow)].is_open) return;
  flows_[at(flow)].is_open = true;
  flows_[at(flow)].before = flows_[at(flow)].rate;
  open_.push_back(flow);
}

void FairShares::open_all_of(Pool& pool) {
  for (std::int32_t flow : pool.flows) open(flow);
}

// Whoever shares a full pool with an open flow; open_ grows meanwhile.
void FairShares::open_tied() {
  for (std::size_t i = 0; i < open_.size(); ++i)
    for (const PoolUse& use : flows_[at(open_[i])].uses) {
      Pool& its = pool(use);
      if (!its.is_full) continue;
      if (!its.is_shared) {
        its.is_shared = true;
        its.left = its.bandwidth;
        its.claimed = 0;
        shared_.push_back(use.pool);
        open_all_of(its);
      }
      its.claimed += use.times;
    }
}

const std::vector<std::int32_t>& FairShares::settle() {
  changed_.clear();
  for (std::int32_t flow : began_) open(flow);
  began_.clear();
  for (std::int32_t number : dirty_) {
    Pool& pool = pools_[at(number)];
    const bool was_full = pool.is_full;
    pool.is_dirty = false;
    pool.is_full = demand(pool, number) > pool.bandwidth;
    if (was_full || pool.is_full) open_all_of(pool);
  }
  dirty_.clear();
  open_tied();
  divide();
  for (std::int32_t number : shared_) pools_[at(number)].is_shared = false;
  shared_.clear();
  return changed_;
}

// Raises all open rates together until a link or a pool is exhausted, closes
// those it holds back, and goes on with the others.
void FairShares::divide() {
  while (!open_.empty()) {
    const double level = next_level();
    std::size_t still = 0;
    for (std::int32_t number : open_) {
      Flow& flow = flows_[at(number)];
      if (!is_held(flow, level)) {
        open_[still++] = number;
        continue;
      }
      close(flow, level);
      if (flow.rate != flow.before) changed_.push_back(number);
    }
    open_.resize(still);
  }
}

double FairShares::next_level() {
  double level = std::numeric_limits<double>::infinity();
  for (std::int32_t number : shared_) {
    Pool& pool = pools_[at(number)];
    if (pool.claimed <= 0) continue;
    pool.level = pool.left / pool.claimed;
    level = std::min(level, pool.level);
  }
  for (std::int32_t flow : open_)
    level = std::min(level, flows_[at(flow)].limit);
  return level;
}

bool FairShares::is_held(const Flow& flow, double level) const {
  if (flow.limit <= level) return true;
  for (const PoolUse& use : flow.uses) {
    const Pool& its = pools_[at(use.pool)];
    if (its.is_shared && its.level <= level) return true;
  }
  return false;
}

void FairShares::close(Flow& flow, double level) {
  flow.rate = level;
  flow.is_open = false;
  for (const PoolUse& use : flow.uses) {
    pool(use).left -= level * use.times;
    pool(use).claimed -= use.times;
  }
}

}  // namespace pipewright
