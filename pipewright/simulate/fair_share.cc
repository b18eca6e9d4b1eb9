#include "pipewright/simulate/fair_share.h"

#include <algorithm>
#include <limits>

namespace pipewright {
namespace {

// Where a use is accounted: one pool per direction, or one for both.
std::size_t pool_of(const Link::Use& use,
                    const std::vector<SharedResource>& resources) {
  const auto resource = static_cast<std::size_t>(use.resource);
  const bool second =
      use.upstream && resources[resource].duplex == Duplex::Full;
  return 2 * resource + (second ? 1 : 0);
}

struct Pool {
  double left = 0;
  int flows = 0;  // not yet settled
};

class WaterFilling {
 public:
  WaterFilling(std::vector<Flow*>& flows,
               const std::vector<SharedResource>& resources)
      : open_(flows.begin(), flows.end()),
        resources_(resources),
        pools_(2 * resources.size()) {
    for (std::size_t r = 0; r < resources.size(); ++r)
      pools_[2 * r].left = pools_[2 * r + 1].left =
          resources[r].bandwidth.value();
    for (const Flow* flow : open_)
      for (std::size_t pool : pools_of(*flow)) ++pools_[pool].flows;
  }

  // Raises all open rates together until a link or a pool is exhausted, settles
  // those it holds back, and goes on with the others.
  void run() {
    while (!open_.empty()) {
      const double level = next_level();
      std::vector<Flow*> held;
      for (Flow* flow : open_)
        if (highest(*flow) <= level) held.push_back(flow);
      for (Flow* flow : held) settle(*flow, level);
      std::erase_if(open_, [&held](Flow* flow) {
        return std::find(held.begin(), held.end(), flow) != held.end();
      });
    }
  }

 private:
  std::vector<std::size_t> pools_of(const Flow& flow) const {
    std::vector<std::size_t> pools;
    for (const Link::Use& use : *flow.uses)
      pools.push_back(pool_of(use, resources_));
    std::sort(pools.begin(), pools.end());
    pools.erase(std::unique(pools.begin(), pools.end()), pools.end());
    return pools;
  }

  double highest(const Flow& flow) const {
    double rate = flow.limit;
    for (std::size_t pool : pools_of(flow))
      rate = std::min(rate, pools_[pool].left / pools_[pool].flows);
    return rate;
  }

  double next_level() const {
    double level = std::numeric_limits<double>::infinity();
    for (const Flow* flow : open_) level = std::min(level, highest(*flow));
    return level;
  }

  void settle(Flow& flow, double level) {
    flow.rate = level;
    for (std::size_t pool : pools_of(flow)) {
      pools_[pool].left -= level;
      --pools_[pool].flows;
    }
  }

  std::vector<Flow*> open_;
  const std::vector<SharedResource>& resources_;
  std::vector<Pool> pools_;
};

}  // namespace

void share_fairly(std::vector<Flow*>& flows,
                  const std::vector<SharedResource>& resources) {
  WaterFilling(flows, resources).run();
}

}  // namespace pipewright
