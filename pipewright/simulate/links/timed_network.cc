#include "pipewright/simulate/links/timed_network.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "pipewright/base/check.h"

namespace pipewright {
namespace {

class TimedNetworkBuilder {
 public:
  TimedNetworkBuilder(const Program& program, const Costs& costs)
      : program_(program), costs_(costs) {}

  TimedNetwork build() {
    network_.pools = pools_of(costs_.resources);
    users_.resize(network_.pools.size());
    for (std::size_t t = 0; t < program_.transfers.size(); ++t)
      add_transfer(program_.transfers[t], costs_.transfers[t]);
    network_.first_reduction =
        static_cast<std::int32_t>(network_.transfers.size());
    for (std::size_t r = 0; r < program_.reductions.size(); ++r)
      add_reduction(program_.reductions[r], costs_.reductions[r]);
    for (std::size_t t = 0; t < network_.transfers.size(); ++t)
      set_sharing(network_.transfers[t], uses_[t]);
    return std::move(network_);
  }

 private:
  // One per direction of a pair of workers, or per half-duplex pair, or per set
  // of workers that sum gradients.
  using LinkKey = std::tuple<int, int, int>;

  void add_transfer(const Transfer& transfer, const Costs::TransferCost& cost) {
    TimedTransfer timed;
    timed.channel = channel_of(transfer);
    timed.latency = cost.latency.value();
    timed.bytes = static_cast<double>(transfer.bytes.value());
    timed.limit = cost.bandwidth.value();
    if (transfer.is_keyed_by_version()) timed.base = KeyBase::Repetition;
    network_.transfers.push_back(timed);
    add_pool_uses(cost.uses, costs_.resources, uses_.emplace_back());
    if (std::isinf(timed.limit) && cost.uses.empty()) return;
    put_on_link(timed.channel,
                cost.half_duplex_link >= 0
                    ? LinkKey(-1, -1, cost.half_duplex_link)
                    : LinkKey(transfer.from.value, transfer.to.value, -1));
  }

  std::int32_t channel_of(const Transfer& transfer) {
    const auto [place, is_new] = channels_.try_emplace(
        {transfer.from, transfer.to, transfer.kind},
        static_cast<std::int32_t>(network_.channels.size()));
    if (is_new)
      network_.channels.push_back(
          {transfer.from, transfer.to, transfer.kind, -1});
    return place->second;
  }

  // Those of the same workers share a link, so that they follow each other; it
  // shares pools with the links of their ring.
  void add_reduction(const Reduction& reduction,
                     const Costs::ReductionCost& cost) {
    TimedTransfer timed;
    timed.channel = static_cast<std::int32_t>(network_.channels.size());
    timed.latency = cost.latency.value();
    timed.bytes = cost.bytes;
    timed.limit = cost.bandwidth.value();
    timed.base = KeyBase::Repetition;
    network_.transfers.push_back(timed);
    network_.channels.push_back({{}, {}, TransferKind::Weights, -1});
    uses_.emplace_back();
    for (const auto& link : cost.links)
      add_pool_uses(link, costs_.resources, uses_.back());
    const auto ring =
        rings_.try_emplace(reduction.workers, timed.channel).first;
    put_on_link(timed.channel, {-2, -2, ring->second});
  }

  void put_on_link(std::int32_t channel, const LinkKey& key) {
    std::int32_t& link = network_.channels[channel].link;
    if (link < 0) {
      const auto [place, is_new] = links_.try_emplace(
          key, static_cast<std::int32_t>(network_.links.size()));
      if (is_new) network_.links.emplace_back();
      link = place->second;
      network_.links[link].channels.push_back(channel);
    }
    for (const PoolUse& use : uses_.back()) users_[use.pool].insert(link);
  }

  void set_sharing(TimedTransfer& timed, const std::vector<PoolUse>& uses) {
    timed.first_use = static_cast<std::int32_t>(network_.pool_uses.size());
    for (const PoolUse& use : uses) {
      if (users_[use.pool].size() > 1) network_.pool_uses.push_back(use);
      timed.limit = std::min(timed.limit, network_.pools[use.pool] / use.times);
    }
    timed.num_uses =
        static_cast<std::int32_t>(network_.pool_uses.size()) - timed.first_use;
    timed.seconds_on_link = timed.bytes / timed.limit;
    PIPEWRIGHT_CHECK(
        timed.seconds_on_link >= 0 && std::isfinite(timed.seconds_on_link),
        "a transfer's duration is negative or not finite");
    if (timed.num_uses == 0) return;
    network_.links[network_.channels[timed.channel].link].is_shared = true;
  }

  const Program& program_;
  const Costs& costs_;
  TimedNetwork network_;
  std::map<std::tuple<WorkerId, WorkerId, TransferKind>, std::int32_t>
      channels_;
  std::map<LinkKey, std::int32_t> links_;
  // The first channel of each set of workers that sum gradients.
  std::map<std::vector<WorkerId>, std::int32_t> rings_;
  std::vector<std::vector<PoolUse>> uses_;     // per transfer
  std::vector<std::set<std::int32_t>> users_;  // links, per pool
};

}  // namespace

bool TimedNetwork::is_direct() const {
  return std::all_of(links.begin(), links.end(),
                     [](const TimedLink& link) { return link.is_direct(); });
}

TimedNetwork make_timed_network(const Program& program, const Costs& costs) {
  return TimedNetworkBuilder(program, costs).build();
}

}  // namespace pipewright
