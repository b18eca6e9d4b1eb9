#include "pipewright/simulate/links/fair_share.h"

#include <algorithm>
#include <limits>

namespace pipewright {
namespace {

std::int32_t pool_of(const Link::Use& use,
                     const std::vector<SharedResource>& resources) {
  const bool second =
      use.upstream && resources[use.resource].duplex == Duplex::Full;
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

FairShares::FairShares(const std::vector<double>& pools, std::size_t num_links)
    : pools_(pools.size()), messages_(num_links) {
  for (std::size_t i = 0; i < pools.size(); ++i) pools_[i].bandwidth = pools[i];
}

void FairShares::mark_changed(std::int32_t pool) {
  if (pools_[pool].has_changed) return;
  pools_[pool].has_changed = true;
  changed_pools_.push_back(pool);
}

void FairShares::start(std::int32_t link, double limit,
                       std::span<const PoolUse> uses) {
  messages_[link] = {limit, uses, 0, 0, false};
  started_.push_back(link);
  for (const PoolUse& use : uses) {
    pools_[use.pool].links.push_back(link);
    mark_changed(use.pool);
  }
}

void FairShares::end(std::int32_t link) {
  std::erase(started_, link);
  for (const PoolUse& use : messages_[link].uses) {
    auto& users = pools_[use.pool].links;
    users.erase(std::find(users.begin(), users.end(), link));
    mark_changed(use.pool);
  }
}

// Summed again each time: additions and subtractions would accumulate rounding
// errors.
double FairShares::demand(const Pool& pool, std::int32_t number) const {
  double sum = 0;
  for (std::int32_t link : pool.links)
    for (const PoolUse& use : messages_[link].uses)
      if (use.pool == number) sum += messages_[link].limit * use.times;
  return sum;
}

void FairShares::open(std::int32_t link) {
  Message& message = messages_[link];
  if (message.is_open) return;
  message.is_open = true;
  message.rate_before = message.rate;
  open_.push_back(link);
}

void FairShares::open_all(const Pool& pool) {
  for (std::int32_t link : pool.links) open(link);
}

// Opens whoever uses a full pool together with an open message; open_ grows
// meanwhile.
void FairShares::open_connected() {
  for (std::size_t i = 0; i < open_.size(); ++i)
    for (const PoolUse& use : messages_[open_[i]].uses) {
      Pool& pool = pools_[use.pool];
      if (!pool.is_full) continue;
      if (!pool.is_divided) {
        pool.is_divided = true;
        pool.left = pool.bandwidth;
        pool.claimed = 0;
        divided_.push_back(use.pool);
        open_all(pool);
      }
      pool.claimed += use.times;
    }
}

const std::vector<std::int32_t>& FairShares::update_rates() {
  changed_.clear();
  for (std::int32_t link : started_) open(link);
  started_.clear();
  for (std::int32_t number : changed_pools_) {
    Pool& pool = pools_[number];
    const bool was_full = pool.is_full;
    pool.has_changed = false;
    pool.is_full = demand(pool, number) > pool.bandwidth;
    if (was_full || pool.is_full) open_all(pool);
  }
  changed_pools_.clear();
  open_connected();
  divide();
  for (std::int32_t number : divided_) pools_[number].is_divided = false;
  divided_.clear();
  return changed_;
}

// Raises all open rates together until a link or a pool is exhausted, closes
// the messages that it limits, and goes on with the others.
void FairShares::divide() {
  while (!open_.empty()) {
    const double level = next_level();
    std::size_t still_open = 0;
    for (std::int32_t link : open_) {
      Message& message = messages_[link];
      if (!is_limited(message, level)) {
        open_[still_open++] = link;
        continue;
      }
      close(message, level);
      if (message.rate != message.rate_before) changed_.push_back(link);
    }
    open_.resize(still_open);
  }
}

double FairShares::next_level() {
  double level = std::numeric_limits<double>::infinity();
  for (std::int32_t number : divided_) {
    Pool& pool = pools_[number];
    if (pool.claimed <= 0) continue;
    pool.level = pool.left / pool.claimed;
    level = std::min(level, pool.level);
  }
  for (std::int32_t link : open_)
    level = std::min(level, messages_[link].limit);
  return level;
}

bool FairShares::is_limited(const Message& message, double level) const {
  if (message.limit <= level) return true;
  for (const PoolUse& use : message.uses) {
    const Pool& pool = pools_[use.pool];
    if (pool.is_divided && pool.level <= level) return true;
  }
  return false;
}

void FairShares::close(Message& message, double level) {
  message.rate = level;
  message.is_open = false;
  for (const PoolUse& use : message.uses) {
    pools_[use.pool].left -= level * use.times;
    pools_[use.pool].claimed -= use.times;
  }
}

}  // namespace pipewright
