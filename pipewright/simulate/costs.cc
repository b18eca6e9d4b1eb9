// Costs from a profile and a cluster: what each operation, transfer and
// reduction of a program takes on the devices it was planned for.

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "pipewright/profile/tiers.h"
#include "pipewright/simulate/fair_share.h"
#include "pipewright/simulate/simulate.h"

namespace pipewright {
namespace {

class CostsMaker {
 public:
  CostsMaker(const Program& program, const Profile& profile,
             const Cluster& cluster)
      : program_(program), profile_(profile), cluster_(cluster) {}

  Result<Costs> make() {
    if (auto fine = check_devices(); !fine) return fine.error();
    costs_.resources = cluster_.resources();
    for (const WorkerProgram& worker : program_.workers)
      costs_.blocking.push_back(
          !cluster_.kind_of(worker.device).overlaps_communication);
    if (auto fine = set_operations(); !fine) return fine.error();
    for (const Transfer& transfer : program_.transfers) {
      auto cost = transfer_cost(transfer.from, transfer.to);
      if (!cost) return cost.error();
      costs_.transfers.push_back(*cost);
    }
    for (const Reduction& reduction : program_.reductions) {
      auto seconds = ring_seconds(reduction);
      if (!seconds) return seconds.error();
      costs_.reductions.push_back(*seconds);
    }
    if (has_tiers()) {
      SimulateOptions only_memory;
      only_memory.keep_spans = false;
      for (const WorkerSummary& worker :
           simulate(program_, costs_, only_memory).workers)
        held_.push_back(worker.peak.total());
      if (auto fine = set_operations(); !fine) return fine.error();
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

  // Whether some worker's layers take less time where all it holds fits on chip
  // (tiers.h). What it holds is known once the program has been simulated as if
  // nothing did.
  bool has_tiers() const {
    for (const WorkerProgram& worker : program_.workers) {
      const DeviceKind& kind = cluster_.kind_of(worker.device);
      if (kind.on_chip_memory > Bytes(0) &&
          profile_.times.contains(on_chip_table(kind.name)))
        return true;
    }
    return false;
  }

  Result<void> set_operations() {
    costs_.operations.clear();
    for (const Operation& operation : program_.operations) {
      auto cost = operation_cost(operation);
      if (!cost) return cost.error();
      costs_.operations.push_back(*cost);
    }
    return {};
  }

  // Layer times on a worker's device, asked for once per number of samples.
  Result<const std::vector<LayerTimes>*> layer_times(WorkerId worker,
                                                     int samples) {
    const DeviceKind& kind =
        cluster_.kind_of(program_.workers[worker.index()].device);
    const Bytes held = held_.empty() ? Bytes::max() : held_[worker.index()];
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
    for (LayerId layer : operation.backward) {
      const LayerTimes& time = (*times)[layer.index()];
      compute[kind(ActionKind::BackwardInput)] += time.backward_input;
      compute[kind(ActionKind::BackwardWeight)] += time.backward_weight;
      compute[kind(ActionKind::Recompute)] += time.forward;
      cost.step += time.update;
    }
    compute[kind(ActionKind::Backward)] =
        compute[kind(ActionKind::BackwardInput)] +
        compute[kind(ActionKind::BackwardWeight)];
    return cost;
  }

  Result<Costs::TransferCost> transfer_cost(WorkerId from, WorkerId to) {
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
          "place neighbouring stages on devices that can talk");
    cost.bandwidth = link->bandwidth;
    cost.latency = link->latency;
    cost.uses = link->uses;
    if (link->duplex == Duplex::Half)
      cost.half_duplex_wire =
          half_duplex_
              .try_emplace(std::minmax(a.value, b.value),
                           static_cast<int>(half_duplex_.size()))
              .first->second;
    return cost;
  }

  Result<Seconds> ring_seconds(const Reduction& reduction) const {
    std::vector<WorkerId> workers = reduction.workers;
    std::sort(workers.begin(), workers.end());
    workers.erase(std::unique(workers.begin(), workers.end()), workers.end());
    std::vector<DeviceId> ring;
    for (WorkerId worker : workers)
      ring.push_back(program_.workers[worker.index()].device);
    PIPEWRIGHT_TRY(const RingPace pace, ring_pace(cluster_, ring));
    return pace.seconds(reduction.bytes);
  }

  const Program& program_;
  const Profile& profile_;
  const Cluster& cluster_;
  Costs costs_;
  std::vector<Bytes> held_;  // by each worker; empty while not known
  std::map<std::tuple<std::string, int, bool>, std::vector<LayerTimes>> times_;
  std::map<std::pair<int, int>, int> half_duplex_;
};

Error no_way(const Cluster& cluster, DeviceId a, DeviceId b) {
  return bad_configuration(
      "gradients are summed over " + cluster.devices()[a.index()].name +
          " and " + cluster.devices()[b.index()].name + ", which have no link",
      "put replicas on devices that can talk");
}

}  // namespace

Seconds RingPace::seconds(Bytes bytes) const {
  if (size < 2) return Seconds(0);
  const double r = size;
  return bytes / slowest * (2 * (r - 1) / r) + latency * (2 * (r - 1));
}

Result<RingPace> ring_pace(const Cluster& cluster,
                           const std::vector<DeviceId>& ring) {
  RingPace pace;
  pace.size = static_cast<int>(ring.size());
  if (pace.size < 2) return pace;
  std::vector<Flow> flows(ring.size());
  std::vector<Flow*> all;
  for (std::size_t i = 0; i < ring.size(); ++i) {
    const DeviceId from = ring[i], to = ring[(i + 1) % ring.size()];
    const Link* link = cluster.link(from, to);
    if (link == nullptr) return no_way(cluster, from, to);
    flows[i].limit = link->bandwidth.value();
    flows[i].uses = &link->uses;
    all.push_back(&flows[i]);
    pace.latency = std::max(pace.latency, link->latency);
  }
  share_fairly(all, cluster.resources());
  double slowest = std::numeric_limits<double>::infinity();
  for (const Flow& flow : flows) slowest = std::min(slowest, flow.rate);
  pace.slowest = BytesPerSecond(slowest);
  return pace;
}

Result<Costs> costs_of(const Program& program, const Profile& profile,
                       const Cluster& cluster) {
  return CostsMaker(program, profile, cluster).make();
}

}  // namespace pipewright
