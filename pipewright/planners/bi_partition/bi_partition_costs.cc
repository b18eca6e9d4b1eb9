#include "pipewright/planners/bi_partition/bi_partition_costs.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "pipewright/base/infinity.h"
#include "pipewright/cluster/sum_rounds.h"

namespace pipewright {

// What each layer keeps and reads, by storage, so that nothing is counted or
// sent twice.
struct BiPartitionCosts::Storages {
  std::vector<Bytes> bytes;             // per layer, of its own storage
  std::vector<Bytes> privates;          // per layer
  std::vector<std::vector<int>> keeps;  // per layer, storages
  std::vector<std::vector<int>> reads;  // per layer, storages
  std::vector<int> last_use;            // per storage

  Storages(const Profile& profile, const std::vector<LayerSizes>& sizes) {
    const std::vector<LayerId> storage = profile.storages();
    last_use.assign(profile.layers.size(), -1);
    for (std::size_t l = 0; l < profile.layers.size(); ++l) {
      const ProfileLayer& layer = profile.layers[l];
      std::set<int> kept;
      reads.emplace_back();
      for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
        const LayerId input = storage[layer.inputs[i].index()];
        reads.back().push_back(input.value);
        last_use[input.index()] = static_cast<int>(l);
        if (layer.keeps_input[i]) kept.insert(input.value);
      }
      if (layer.keeps_output) kept.insert(storage[l].value);
      keeps.emplace_back(kept.begin(), kept.end());
      bytes.push_back(sizes[l].output);
      privates.push_back(sizes[l].keeps_private);
    }
  }

  bool crosses(int storage, int position) const {
    return storage < position && last_use[at(storage)] >= position;
  }
};

namespace {

Bytes share_of(Bytes bytes, double share) {
  const double part = static_cast<double>(bytes.value()) * share;
  return part < 9e18 ? Bytes(static_cast<std::int64_t>(part)) : Bytes::max();
}

std::vector<int> kinds_of(const Cluster& cluster, int first, int end) {
  std::set<int> kinds;
  for (int d = first; d < end; ++d) kinds.insert(cluster.devices()[at(d)].kind);
  return {kinds.begin(), kinds.end()};
}

// Each layer's time on the slowest of the kinds, divided among replicas.
std::vector<double> slowest(const std::vector<std::vector<double>>& by_kind,
                            const std::vector<int>& kinds, int replicas) {
  std::vector<double> seconds(by_kind[0].size(), 0.0);
  for (int kind : kinds)
    for (std::size_t l = 0; l < seconds.size(); ++l)
      seconds[l] = std::max(seconds[l], by_kind[at(kind)][l] / replicas);
  return seconds;
}

void take_slower(const Cluster& cluster, int from, int to,
                 BiPartitionCosts::GroupLink& slowest) {
  const Link* link = cluster.link(DeviceId(from), DeviceId(to));
  if (link == nullptr) {
    slowest.bandwidth = 0;  // no plan uses it
    return;
  }
  double bandwidth = link->bandwidth.value();
  for (const Link::Use& use : link->uses)
    bandwidth = std::min(
        bandwidth, cluster.resources()[at(use.resource)].bandwidth.value());
  slowest.bandwidth = std::min(slowest.bandwidth, bandwidth);
  slowest.latency = std::max(slowest.latency, link->latency.value());
  slowest.half_duplex |= link->duplex == Duplex::Half;
}

// Between a group and the device before or after it.
BiPartitionCosts::GroupLink slowest_link_to(const Cluster& cluster, int first,
                                            int replicas, int other) {
  BiPartitionCosts::GroupLink slowest;
  if (other < 0 || other >= cluster.num_devices()) return slowest;
  slowest.bandwidth = kInfinity;
  for (int d = first; d < first + replicas; ++d)
    take_slower(cluster, std::min(d, other), std::max(d, other), slowest);
  return slowest;
}

BiPartitionCosts::GroupLink slowest_ring(const Cluster& cluster, int first,
                                         int replicas) {
  BiPartitionCosts::GroupLink slowest;
  slowest.bandwidth = kInfinity;
  for (int i = 0; replicas > 1 && i < replicas; ++i)
    take_slower(cluster, first + i, first + (i + 1) % replicas, slowest);
  return slowest;
}

std::vector<double> unit_sums(const std::vector<int>& layer_at,
                              const std::vector<double>& layers) {
  std::vector<double> prefix(1, 0.0);
  for (double seconds : layers) prefix.push_back(prefix.back() + seconds);
  std::vector<double> sums;
  for (int layer : layer_at) sums.push_back(prefix[at(layer)]);
  return sums;
}

}  // namespace

// Merges light neighbours into units of at most 2/kMaxUnits of the whole time.
void BiPartitionCosts::set_units(const std::vector<double>& seconds) {
  const int layers = static_cast<int>(seconds.size());
  const double total = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  layer_at_ = {0};
  if (layers <= kMaxUnits) {
    for (int l = 1; l <= layers; ++l) layer_at_.push_back(l);
    return;
  }
  double in_unit = seconds[0];
  for (int l = 1; l < layers; ++l) {
    const bool full = in_unit + seconds[at(l)] > 2 * total / kMaxUnits;
    // Without times, equal counts.
    const bool even = total == 0 && l % (layers / (kMaxUnits / 2)) == 0;
    if (full || even) {
      layer_at_.push_back(l);
      in_unit = 0;
    }
    in_unit += seconds[at(l)];
  }
  layer_at_.push_back(layers);
}

Result<BiPartitionCosts> BiPartitionCosts::create(
    const Problem& problem, int microbatch, const BiPartitionOptions& options) {
  const Profile& profile = *problem.profile;
  BiPartitionCosts costs;
  costs.options_ = options;
  costs.options_.band = std::clamp(options.band, 0, kMaxUnits);
  costs.method_ = problem.method;
  costs.microbatches_ = std::max(1, problem.minibatch / microbatch);
  costs.optimizer_words_ = problem.optimizer_words;
  PIPEWRIGHT_TRY(const std::vector<LayerSizes> sizes,
                 sizes_at(profile, microbatch, Outside::Extrapolate));
  std::vector<std::vector<double>> forward, backward;  // by kind
  for (const DeviceKind& kind : problem.cluster->kinds()) {
    PIPEWRIGHT_TRY(
        const std::vector<LayerTimes> times,
        times_at(profile, kind.name, microbatch, Outside::Extrapolate));
    forward.emplace_back();
    backward.emplace_back();
    for (const LayerTimes& t : times) {
      forward.back().push_back(t.forward.value());
      backward.back().push_back(t.backward().value() +
                                t.update.value() / costs.microbatches_);
    }
  }
  std::vector<double> seconds = forward[0];
  for (std::size_t l = 0; l < seconds.size(); ++l) seconds[l] += backward[0][l];
  costs.set_units(seconds);

  costs.set_workers(problem, forward, backward);
  const Storages storages(profile, sizes);
  Bytes sum;
  std::size_t l = 0;
  for (int position : costs.layer_at_) {
    for (; l < at(position); ++l) sum += profile.parameter_bytes(LayerId(l));
    costs.parameters_.push_back(sum);
  }
  costs.set_kept(storages);
  costs.set_boundaries(storages);
  return costs;
}

// A stage needs a forward or a backward of at least one unit, so without
// replicas there are at most two stages per unit.
void BiPartitionCosts::set_workers(
    const Problem& problem, const std::vector<std::vector<double>>& forward,
    const std::vector<std::vector<double>>& backward) {
  const Cluster& cluster = *problem.cluster;
  const int all = cluster.num_devices();
  num_devices_ = max_replicas() > 1 ? all : std::min(all, 2 * num_units());
  options_.max_replicas = std::clamp(max_replicas(), 1, num_devices_);
  for (int first = 0; first < num_devices_; ++first)
    for (int r = 1; r <= max_replicas(); ++r) {
      Worker& worker = workers_.emplace_back();
      if (first + r > num_devices_) continue;
      const std::vector<int> kinds = kinds_of(cluster, first, first + r);
      worker.forward = unit_sums(layer_at_, slowest(forward, kinds, r));
      worker.backward = unit_sums(layer_at_, slowest(backward, kinds, r));
      worker.memory = Bytes::max();
      for (int d = first; d < first + r; ++d) {
        const double share = options_.memory_shares.empty()
                                 ? 1.0
                                 : options_.memory_shares[at(d)];
        worker.memory = std::min(
            worker.memory, share_of(problem.memory_of(DeviceId(d)), share));
      }
      for (int kind : kinds)
        worker.blocking |= cluster.kinds()[at(kind)].overlap < 1;
      worker.before = slowest_link_to(cluster, first, r, first - 1);
      worker.after = slowest_link_to(cluster, first, r, first + r);
      worker.inside = slowest_ring(cluster, first, r);
    }
}

void BiPartitionCosts::set_kept(const Storages& storages) {
  std::vector<int> seen(storages.bytes.size(), -1);
  for (int first = 0; first < num_units(); ++first) {
    auto& row = kept_.emplace_back(1, Bytes(0));
    Bytes sum;
    for (int unit = first; unit < num_units(); ++unit) {
      for (int l = layer_at(unit); l < layer_at(unit + 1); ++l) {
        sum += storages.privates[at(l)];
        for (int s : storages.keeps[at(l)])
          if (std::exchange(seen[at(s)], first) != first)
            sum += storages.bytes[at(s)];
      }
      row.push_back(sum);
    }
  }
}

void BiPartitionCosts::set_boundaries(const Storages& storages) {
  crossing_.assign(at(num_units() + 1), Bytes(0));
  for (int s = 0; s < static_cast<int>(storages.bytes.size()); ++s)
    for (int u = 0; u <= num_units(); ++u)
      if (storages.crosses(s, layer_at(u)))
        crossing_[at(u)] += storages.bytes[at(s)];
  const int width = 2 * options_.band + 1;
  boundaries_.resize(at(num_units() + 1) * at(width) * 2);
  for (int x = 0; x <= num_units(); ++x)
    for (int d = -options_.band; d <= options_.band; ++d) {
      if (x + d < 0 || x + d > num_units()) continue;
      for (int light = 0; light < 2; ++light)
        boundaries_[(at(x) * at(width) + at(d + options_.band)) * 2 +
                    at(light)] = boundary_of(storages, {x, x + d}, light != 0);
    }
}

BiPartitionCosts::Boundary BiPartitionCosts::boundary_of(
    const Storages& storages, CutPair cut, bool light) const {
  const auto [x, y] = cut;
  const int forward_cut = layer_at(x);
  const int first = layer_at(std::min(x, y)), end = layer_at(std::max(x, y));
  std::set<int> moved;
  Bytes saved;
  for (int l = first; l < end; ++l) {
    if (!light) saved += storages.privates[at(l)];
    for (int s : storages.keeps[at(l)]) {
      // A later owner already has what crosses the forward cut, an earlier one
      // what was computed before it.
      const bool there =
          x > y ? storages.crosses(s, forward_cut) : s < forward_cut;
      if (!light && !there) moved.insert(s);
    }
  }
  // A later owner that recomputes needs the inputs of the region.
  for (int l = first; light && x > y && l < end; ++l)
    for (int s : storages.reads[at(l)])
      if (s < first && !storages.crosses(s, forward_cut)) moved.insert(s);
  for (int s : moved) saved += storages.bytes[at(s)];

  Boundary b;
  b.forward = static_cast<double>(crossing_[at(x)].value());
  b.backward = static_cast<double>(crossing_[at(y)].value());
  const auto weights =
      static_cast<double>(parameters(std::min(x, y), std::max(x, y)).value()) /
      microbatches_;
  const auto tensors = static_cast<double>(saved.value());
  (x > y ? b.forward : b.backward) += tensors;
  (x > y ? b.backward_weights : b.forward_weights) = weights;
  if (x != y) b.extra = tensors + weights;
  return b;
}

double BiPartitionCosts::reduction(Group group, int y, int y2) const {
  const double r = group.replicas;
  if (group.replicas == 1 || y == y2) return 0;
  const GroupLink& ring = of(group).inside;
  if (ring.bandwidth <= 0) return kInfinity;
  const auto bytes = static_cast<double>(parameters(y, y2).value());
  return (2 * (r - 1) / r * bytes / ring.bandwidth +
          sum_rounds(group.replicas) * ring.latency) /
         microbatches_;
}

double BiPartitionCosts::link(Group group, Side side, CutPair cut,
                              bool light) const {
  const GroupLink& w = link_at(group, side);
  if (w.bandwidth <= 0) return kInfinity;
  const Boundary& b = boundary(cut, light);
  const double forward = b.forward / group.replicas + b.forward_weights;
  const double backward = b.backward / group.replicas + b.backward_weights;
  const double bytes =
      w.half_duplex ? forward + backward : std::max(forward, backward);
  return bytes / w.bandwidth + w.latency;
}

double BiPartitionCosts::exchange(Group group, Side side, CutPair cut,
                                  bool light) const {
  const GroupLink& w = link_at(group, side);
  if (w.bandwidth <= 0) return kInfinity;
  const Boundary& b = boundary(cut, light);
  const double bytes = (b.forward + b.backward) / group.replicas +
                       b.forward_weights + b.backward_weights;
  return bytes / w.bandwidth + 2 * w.latency;
}

double BiPartitionCosts::extra_bytes(CutPair cut, bool light) const {
  return boundary(cut, light).extra;
}

int BiPartitionCosts::in_flight(int stages_after) const {
  const int in_flight = stages_after + 1;
  return method_ == Method::Sync ? std::min(in_flight, microbatches_)
                                 : in_flight;
}

int BiPartitionCosts::versions(int stages_after) const {
  switch (method_) {
    case Method::Stash:
    case Method::VerticalSync:  // one per minibatch with microbatches in flight
      return (in_flight(stages_after) - 1 + microbatches_ - 1) / microbatches_ +
             1;
    case Method::TwoBw:
      return 2;
    case Method::Sync:
    case Method::PipeMare:
    case Method::Naive:
      break;
  }
  return 1;
}

Bytes BiPartitionCosts::memory(CutPair front, CutPair back, int replicas,
                               int stages_after, bool recompute) const {
  const int common_first = std::max(front.x, front.y);
  const int common_end = std::min(back.x, back.y);
  const std::int64_t n = in_flight(stages_after),
                     n_before = in_flight(stages_after + 1);
  // A later owner holds as many versions as the stage before it.
  const std::int64_t copies =
      versions(front.x > front.y ? stages_after + 1 : stages_after) + 1 +
      optimizer_words_;
  Bytes weights = parameters(front.y, back.y) * copies;
  const Bytes only_forward =
      parameters(front.x, back.x) -
      parameters(common_first, std::max(common_first, common_end));
  weights += only_forward * std::int64_t{2};  // in use, and arriving
  Bytes tensors;
  if (recompute) {
    tensors += crossing_[at(front.y)] * (front.x > front.y ? n_before : n);
    tensors += kept(front.y, back.y);
  } else {
    tensors += kept(common_first, common_end) * n;
    // Whose forward is on a stage before, or on a stage after.
    tensors += kept(front.y, std::min(front.x, back.y)) * n_before;
    tensors += kept(std::max(back.x, front.y), back.y) * n;
  }
  // One message per direction and boundary, arriving and in use.
  for (CutPair cut : {front, back})
    tensors += (crossing_[at(cut.x)] + crossing_[at(cut.y)]) * std::int64_t{2};
  return weights + Bytes(tensors.value() / replicas);
}

}  // namespace pipewright
