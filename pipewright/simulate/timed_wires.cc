#include "pipewright/simulate/timed_wires.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "pipewright/base/check.h"
#include "pipewright/base/index.h"

namespace pipewright {
namespace {

class Wiring {
 public:
  Wiring(const Program& program, const Costs& costs, TimedCode& code)
      : program_(program), costs_(costs), code_(code) {}

  void run() {
    code_.pools = pools_of(costs_.resources);
    users_.resize(code_.pools.size());
    for (std::size_t t = 0; t < program_.transfers.size(); ++t) add_transfer(t);
    code_.first_reduction = static_cast<std::int32_t>(code_.transfers.size());
    for (const Costs::ReductionCost& cost : costs_.reductions)
      add_reduction(cost);
    code_.followers.resize(program_.reductions.size());
    for (std::size_t r = 0; r < program_.reductions.size(); ++r) {
      std::vector<std::int32_t>& after = code_.after.emplace_back();
      for (ReductionId before : program_.reductions[r].after) {
        after.push_back(before.value);
        code_.followers[before.index()].push_back(static_cast<std::int32_t>(r));
      }
    }
    for (std::size_t t = 0; t < code_.transfers.size(); ++t) settle(t);
  }

 private:
  void add_transfer(std::size_t t) {
    const Transfer& transfer = program_.transfers[t];
    const Costs::TransferCost& cost = costs_.transfers[t];
    const auto key = std::tuple(transfer.from, transfer.to, transfer.kind);
    auto [place, is_new] = channels_.try_emplace(
        key, static_cast<std::int32_t>(code_.channels.size()));
    if (is_new)
      code_.channels.push_back(
          {transfer.from.value, transfer.to.value, transfer.kind, -1});
    TimedTransfer timed;
    timed.channel = place->second;
    timed.latency = cost.latency.value();
    timed.bytes = static_cast<double>(transfer.bytes.value());
    timed.limit = cost.bandwidth.value();
    if (transfer.is_keyed_by_version()) timed.base = KeyBase::Repetition;
    code_.transfers.push_back(timed);
    uses_.emplace_back();
    add_pool_uses(cost.uses, costs_.resources, uses_.back());
    if (std::isinf(timed.limit) && cost.uses.empty()) return;
    const bool half = cost.half_duplex_wire >= 0;
    put_on_wire(place->second,
                half ? std::tuple(-1, -1, cost.half_duplex_wire)
                     : std::tuple(transfer.from.value, transfer.to.value, -1));
  }

  // Carried on a wire of its own, which its links' pools tie to others.
  void add_reduction(const Costs::ReductionCost& cost) {
    TimedTransfer timed;
    timed.channel = static_cast<std::int32_t>(code_.channels.size());
    timed.latency = cost.latency.value();
    timed.bytes = cost.bytes;
    timed.limit = cost.bandwidth.value();
    timed.base = KeyBase::Repetition;
    timed.parts = 0;  // counted with the actions
    code_.transfers.push_back(timed);
    code_.channels.push_back({-1, -1, TransferKind::Weights, -1});
    uses_.emplace_back();
    for (const auto& link : cost.links)
      add_pool_uses(link, costs_.resources, uses_.back());
    put_on_wire(timed.channel, {-2, -2, timed.channel});
  }

  // One wire per direction of a pair of workers, or per half-duplex pair.
  void put_on_wire(std::int32_t channel,
                   const std::tuple<int, int, int>& which) {
    TimedChannel& way = code_.channels[at(channel)];
    if (way.wire < 0) {
      auto [place, is_new] = wires_.try_emplace(
          which, static_cast<std::int32_t>(code_.wires.size()));
      if (is_new) code_.wires.emplace_back();
      way.wire = place->second;
      code_.wires[at(way.wire)].channels.push_back(channel);
    }
    for (const PoolUse& use : uses_.back())
      users_[at(use.pool)].insert(way.wire);
  }

  void settle(std::size_t t) {
    TimedTransfer& timed = code_.transfers[t];
    timed.first_use = static_cast<std::int32_t>(code_.pool_uses.size());
    for (const PoolUse& use : uses_[t]) {
      if (users_[at(use.pool)].size() > 1) code_.pool_uses.push_back(use);
      timed.limit =
          std::min(timed.limit, code_.pools[at(use.pool)] / use.times);
    }
    timed.num_uses =
        static_cast<std::int32_t>(code_.pool_uses.size()) - timed.first_use;
    timed.seconds_on_wire = timed.bytes / timed.limit;
    PIPEWRIGHT_CHECK(
        timed.seconds_on_wire >= 0 && std::isfinite(timed.seconds_on_wire),
        "a transfer's duration is negative or not finite");
    if (timed.num_uses == 0) return;
    code_.wires[at(code_.channels[at(timed.channel)].wire)].shares = true;
  }

  const Program& program_;
  const Costs& costs_;
  TimedCode& code_;
  std::map<std::tuple<WorkerId, WorkerId, TransferKind>, std::int32_t>
      channels_;
  std::map<std::tuple<int, int, int>, std::int32_t> wires_;
  std::vector<std::vector<PoolUse>> uses_;     // per transfer
  std::vector<std::set<std::int32_t>> users_;  // wires, per pool
};

}  // namespace

void add_wires(const Program& program, const Costs& costs, TimedCode& code) {
  Wiring(program, costs, code).run();
}

}  // namespace pipewright
