#include "pipewright/simulate/costs.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "pipewright/cluster/sum_rounds.h"
#include "pipewright/plan/memory/memory_bound.h"
#include "pipewright/profile/tiers.h"

namespace pipewright {
namespace {

class CostsBuilder {
 public:
  CostsBuilder(const Program& program, const Profile& profile,
               const Cluster& cluster)
      : program_(program), profile_(profile), cluster_(cluster) {}

  Result<Costs> build() {
    if (auto fine = check_devices(); !fine) return fine.error();
    costs_.resources = cluster_.resources();
    for (const WorkerProgram& worker : program_.workers) {
      const DeviceKind& kind = cluster_.kind_of(worker.device);
      costs_.blocking.push_back(1 - kind.overlap);
      costs_.memory.push_back({kind.base_memory, kind.fragmentation});
    }
    for (const Operation& operation : program_.operations) {
      auto cost = operation_cost(operation);
      if (!cost) return cost.error();
      costs_.operations.push_back(*cost);
    }
    for (const Reduction& reduction : program_.reductions) {
      auto cost = ring_cost(reduction);
      if (!cost) return cost.error();
      costs_.reductions.push_back(*cost);
    }
    for (const Transfer& transfer : program_.transfers) {
      auto cost = transfer_cost(transfer.from, transfer.to, transfer.bytes);
      if (!cost) return cost.error();
      const DeviceId sender = program_.workers[transfer.from.index()].device;
      cost->streams =
          cluster_.kind_of(sender).execution == ExecutionClass::Async;
      costs_.transfers.push_back(*cost);
    }
    return std::move(costs_);
  }

 private:
  Result<void> check_devices() const {
    for (std::size_t w = 0; w < program_.workers.size(); ++w) {
      const DeviceId device = program_.workers[w].device;
      if (device.is_none() || device.value >= cluster_.num_devices())
        return bad_configuration(
            "worker " + std::to_string(w) + " is on device " +
                std::to_string(device.value) + ", but cluster \"" +
                cluster_.name() + "\" has " +
                std::to_string(cluster_.num_devices()) + " devices",
            "use the cluster that the plan was made for");
    }
    return {};
  }

  // The most that the worker can hold by its program, which decides between
  // on-chip memory and DDR (tiers.h). Computed only where it matters.
  Bytes held_by(WorkerId worker, const DeviceKind& kind) {
    if (kind.on_chip_memory == Bytes(0) ||
        !profile_.times.contains(on_chip_table(kind.name)))
      return Bytes::max();
    if (held_.empty())
      for (const MemoryBound& bound : memory_bounds(program_))
        held_.push_back(bound.peak.total());
    return held_[worker.index()];
  }

  // Layer times on a worker's device, computed once per number of samples.
  Result<const std::vector<LayerTimes>*> layer_times(WorkerId worker,
                                                     int samples) {
    const DeviceKind& kind =
        cluster_.kind_of(program_.workers[worker.index()].device);
    const Bytes held = held_by(worker, kind);
    const auto key = std::tuple(kind.name, samples, fits_on_chip(kind, held));
    auto known = times_.find(key);
    if (known == times_.end()) {
      PIPEWRIGHT_TRY(
          std::vector<LayerTimes> times,
          times_on(profile_, kind, samples, held, Outside::Extrapolate));
      known = times_.emplace(key, std::move(times)).first;
    }
    return &known->second;
  }

  Result<Costs::OperationCost> operation_cost(const Operation& operation) {
    Costs::OperationCost cost;
    PIPEWRIGHT_TRY(
        const auto* times,
        layer_times(operation.worker, std::max(1, operation.num_samples())));
    auto& compute = cost.compute;
    const auto kind = [](ActionKind k) { return static_cast<int>(k); };
    for (LayerId layer : operation.forward)
      compute[kind(ActionKind::Forward)] += (*times)[layer.index()].forward;
    int with_weights = 0;
    for (LayerId layer : operation.backward) {
      const LayerTimes& time = (*times)[layer.index()];
      if (profile_.has_weights(layer)) ++with_weights;
      compute[kind(ActionKind::BackwardInput)] += time.backward_input;
      compute[kind(ActionKind::BackwardWeight)] += time.backward_weight;
      compute[kind(ActionKind::Recompute)] += time.forward;
      cost.step += time.update;
    }
    compute[kind(ActionKind::Backward)] =
        compute[kind(ActionKind::BackwardInput)] +
        compute[kind(ActionKind::BackwardWeight)];
    add_overheads(
        cluster_.kind_of(program_.workers[operation.worker.index()].device),
        with_weights, cost);
    return cost;
  }

  // What takes no time by the profile is not done.
  static void add_overheads(const DeviceKind& kind, int with_weights,
                            Costs::OperationCost& cost) {
    for (Seconds& compute : cost.compute)
      if (compute > Seconds(0))
        compute = compute * (1 + kind.layer_overhead) + kind.action_overhead;
    const auto compute = [&](ActionKind action) -> Seconds& {
      return cost.compute[static_cast<int>(action)];
    };
    const Seconds gradients = kind.gradient_overhead * with_weights;
    if (compute(ActionKind::Backward) > Seconds(0))
      compute(ActionKind::Backward) += gradients;
    if (compute(ActionKind::BackwardWeight) > Seconds(0))
      compute(ActionKind::BackwardWeight) += gradients;
    else if (compute(ActionKind::BackwardInput) > Seconds(0))
      compute(ActionKind::BackwardInput) += gradients;
    cost.step += kind.step_overhead;
  }

  Result<Costs::TransferCost> transfer_cost(WorkerId from, WorkerId to,
                                            Bytes message) {
    const DeviceId a = program_.workers[from.index()].device;
    const DeviceId b = program_.workers[to.index()].device;
    Costs::TransferCost cost;
    cost.bandwidth = BytesPerSecond(std::numeric_limits<double>::infinity());
    if (a == b) return cost;
    const Link* link = cluster_.link(a, b);
    if (link == nullptr)
      return bad_configuration(
          "worker " + std::to_string(from.value) + " sends to worker " +
              std::to_string(to.value) + ", but " +
              cluster_.devices()[a.index()].name + " and " +
              cluster_.devices()[b.index()].name + " have no link",
          "place neighbouring stages on devices that have a link");
    cost.bandwidth = message_rate(*link, message);
    cost.latency = link->latency;
    cost.uses = link->uses;
    if (auto ring = ring_links_.find(link_key(a, b, link->duplex));
        ring != ring_links_.end())
      cost.uses.push_back({ring->second, false});
    if (link->duplex == Duplex::Half)
      cost.half_duplex_link =
          half_duplex_
              .try_emplace(std::minmax(a.value, b.value),
                           static_cast<int>(half_duplex_.size()))
              .first->second;
    return cost;
  }

  Result<Costs::ReductionCost> ring_cost(const Reduction& reduction) {
    std::vector<WorkerId> ring = reduction.workers;
    std::sort(ring.begin(), ring.end());
    ring.erase(std::unique(ring.begin(), ring.end()), ring.end());
    std::vector<DeviceId> devices;
    for (WorkerId worker : ring)
      devices.push_back(program_.workers[worker.index()].device);
    PIPEWRIGHT_TRY(const RingPace pace, ring_pace(cluster_, devices));
    Costs::ReductionCost cost;
    pace.set(reduction.bytes, cost);
    for (std::size_t i = 0; i < ring.size() && ring.size() > 1; ++i) {
      const WorkerId from = ring[i], to = ring[(i + 1) % ring.size()];
      share_link(from, to);
      PIPEWRIGHT_TRY(const Costs::TransferCost link,
                     transfer_cost(from, to, reduction.bytes));
      cost.bandwidth =
          std::min(cost.bandwidth, piece_rate(from, to, pace, cost));
      cost.links.push_back(link.uses);
    }
    return cost;
  }

  // The rate of one of the pieces that a ring sends over each of its links.
  BytesPerSecond piece_rate(WorkerId from, WorkerId to, const RingPace& pace,
                            const Costs::ReductionCost& cost) const {
    const Link* link = cluster_.link(program_.workers[from.index()].device,
                                     program_.workers[to.index()].device);
    const double piece = cost.bytes / (2 * (pace.size - 1));
    return collective_rate(*link, Bytes(static_cast<std::int64_t>(piece)));
  }

  // A link that a ring uses is a resource: the ring shares it with transfers
  // and other rings.
  void share_link(WorkerId from, WorkerId to) {
    const DeviceId a = program_.workers[from.index()].device;
    const DeviceId b = program_.workers[to.index()].device;
    const Link* link = a == b ? nullptr : cluster_.link(a, b);
    if (link == nullptr) return;
    const bool is_new =
        ring_links_
            .try_emplace(link_key(a, b, link->duplex),
                         static_cast<int>(costs_.resources.size()))
            .second;
    if (is_new)
      costs_.resources.push_back({cluster_.devices()[a.index()].name + " to " +
                                      cluster_.devices()[b.index()].name,
                                  link->bandwidth, link->duplex});
  }

  // Both directions of a half-duplex link are one.
  static std::pair<int, int> link_key(DeviceId a, DeviceId b, Duplex duplex) {
    if (duplex == Duplex::Half && b < a) std::swap(a, b);
    return {a.value, b.value};
  }

  const Program& program_;
  const Profile& profile_;
  const Cluster& cluster_;
  Costs costs_;
  std::vector<Bytes> held_;  // the most per worker; empty: not computed yet
  std::map<std::tuple<std::string, int, bool>, std::vector<LayerTimes>> times_;
  std::map<std::pair<int, int>, int> half_duplex_;
  std::map<std::pair<int, int>, int> ring_links_;  // resources
};

Error no_link(const Cluster& cluster, DeviceId a, DeviceId b) {
  return bad_configuration(
      "gradients are summed over " + cluster.devices()[a.index()].name +
          " and " + cluster.devices()[b.index()].name + ", which have no link",
      "place replicas on devices that have a link");
}

}  // namespace

void RingPace::set(Bytes bytes, Costs::ReductionCost& cost) const {
  const double r = std::max(1, size);
  cost.bytes = static_cast<double>(bytes.value()) * (2 * (r - 1) / r);
  cost.latency = latency * sum_rounds(size);
}

Result<RingPace> ring_pace(const Cluster& cluster,
                           const std::vector<DeviceId>& ring) {
  RingPace pace;
  pace.size = static_cast<int>(ring.size());
  if (pace.size < 2) return pace;
  for (std::size_t i = 0; i < ring.size(); ++i) {
    const DeviceId from = ring[i], to = ring[(i + 1) % ring.size()];
    if (from == to) continue;
    const Link* link = cluster.link(from, to);
    if (link == nullptr) return no_link(cluster, from, to);
    pace.latency = std::max(pace.latency, link->latency);
  }
  return pace;
}

Result<Costs> costs_of(const Program& program, const Profile& profile,
                       const Cluster& cluster) {
  return CostsBuilder(program, profile, cluster).build();
}

}  // namespace pipewright
