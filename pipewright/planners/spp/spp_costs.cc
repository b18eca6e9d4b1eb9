#include "pipewright/planners/spp/spp_costs.h"

#include <algorithm>

namespace pipewright {
namespace {

// 0, and the ends of `windows` ranges of `count` items, as equal as possible.
std::vector<int> window_ends(int count, int windows) {
  std::vector<int> ends;
  for (int w = 0; w <= windows; ++w)
    ends.push_back(static_cast<int>(std::int64_t{count} * w / windows));
  return ends;
}

// A power of two, so that groups divide a host's devices evenly.
int group_size(int devices, int max_groups) {
  int size = 1;
  while ((devices + size - 1) / size > max_groups) size *= 2;
  return size;
}

// Kept bytes of a growing range of layers, each storage once.
class KeptStorages {
 public:
  KeptStorages(const Profile& profile, const std::vector<LayerSizes>& sizes)
      : profile_(profile),
        sizes_(sizes),
        storages_(profile.storages()),
        counted_(sizes.size(), -1) {}

  void start() {
    ++range_;
    sum_ = 0;
  }
  // Adds a layer and returns the sum.
  double add(LayerId id) {
    const ProfileLayer& layer = profile_.layers[id.index()];
    for (std::size_t i = 0; i < layer.inputs.size(); ++i)
      if (layer.keeps_input[i]) count(layer.inputs[i]);
    if (layer.keeps_output) count(id);
    sum_ += static_cast<double>(sizes_[id.index()].keeps_private.value());
    return sum_;
  }

 private:
  void count(LayerId layer) {
    const std::size_t storage = storages_[layer.index()].index();
    if (counted_[storage] == range_) return;
    counted_[storage] = range_;
    sum_ += static_cast<double>(sizes_[storage].output.value());
  }

  const Profile& profile_;
  const std::vector<LayerSizes>& sizes_;
  const std::vector<LayerId> storages_;  // of each layer's output
  std::vector<int> counted_;             // the last range that counted it
  int range_ = -1;
  double sum_ = 0;
};

}  // namespace

Result<SppCosts> SppCosts::create(const Problem& problem,
                                  const std::vector<DeviceId>& order,
                                  int microbatch) {
  SppCosts costs;
  costs.problem_ = &problem;
  costs.order_ = order;
  costs.microbatch_ = microbatch;
  costs.num_microbatches_ = problem.minibatch / microbatch;
  costs.choose_units();
  if (auto done = costs.choose_cuts(); !done) return done.error();
  const int blocks = static_cast<int>(costs.cuts_.size()) - 1;
  costs.partition_.resize(blocks, static_cast<int>(costs.units_.size()) - 1);
  if (auto done = costs.add_ranges(); !done) return done.error();
  costs.add_channels();
  if (auto done = costs.add_kept(); !done) return done.error();
  return costs;
}

void SppCosts::choose_units() {
  const int devices = static_cast<int>(order_.size());
  const int size = group_size(devices, kMaxUnits);
  for (int end = 0; end < devices; end += size) units_.push_back(end);
  units_.push_back(devices);
}

// In each window of layers, the position with the fewest bytes crossing.
Result<void> SppCosts::choose_cuts() {
  PIPEWRIGHT_TRY(const CostTable* table, table_at(microbatch_));
  const int layers = table->num_layers();
  if (layers == 0) return bad_configuration("the profile has no layer");
  const auto windows = window_ends(layers, std::min(layers, kMaxBlocks));
  cuts_ = {0};
  for (std::size_t w = 1; w + 1 < windows.size(); ++w) {
    int best = windows[w];
    for (int p = windows[w]; p < windows[w + 1]; ++p)
      if (table->crossing(p) < table->crossing(best)) best = p;
    cuts_.push_back(best);
  }
  cuts_.push_back(layers);
  for (int cut : cuts_)
    parameters_.push_back(
        static_cast<double>(table->parameters(0, cut).value()));
  return {};
}

Result<const CostTable*> SppCosts::table_at(int samples) {
  auto known = tables_.find(samples);
  if (known == tables_.end()) {
    PIPEWRIGHT_TRY(
        CostTable table,
        CostTable::create(*problem_->profile, *problem_->cluster, samples));
    known = tables_.emplace(samples, std::move(table)).first;
  }
  return &known->second;
}

std::span<const DeviceId> SppCosts::devices(int first, int end) const {
  const int begin = units_[at(first)];
  return {order_.data() + begin, at(units_[at(end)] - begin)};
}

std::span<const DeviceId> SppCosts::devices(const PartitionStage& stage) const {
  return devices(stage.first_device, stage.end_device);
}

Result<const SppCosts::Sums*> SppCosts::sums_of(
    std::span<const DeviceId> devices) {
  std::vector<int> kinds;
  for (DeviceId device : devices) {
    const int kind = problem_->cluster->devices()[device.index()].kind;
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end())
      kinds.push_back(kind);
  }
  std::sort(kinds.begin(), kinds.end());
  const SumsKey key(samples(devices.size()), kinds);
  if (auto known = sums_.find(key); known != sums_.end()) return &known->second;
  PIPEWRIGHT_TRY(const CostTable* table, table_at(key.first));
  Sums sums;
  double forward = 0, backward = 0, update = 0;
  std::size_t next = 0;
  for (int l = 0; l <= table->num_layers(); ++l) {
    if (l == cuts_[next]) {
      sums.forward.push_back(forward);
      sums.backward.push_back(backward);
      sums.update.push_back(update);
      ++next;
    }
    if (l == table->num_layers()) break;
    Seconds f, b, u;
    for (int kind : kinds) {
      f = std::max(f, table->forward(kind, l, l + 1));
      b = std::max(b, table->backward(kind, l, l + 1));
      u = std::max(u, table->update(kind, l, l + 1));
    }
    forward += f.value();
    backward += b.value();
    update += u.value();
  }
  return &sums_.emplace(key, std::move(sums)).first->second;
}

// A stage's load is M (forward + backward) + all-reduce + update. Each term is
// a difference of prefix sums, so one array of sums per range is enough.
Result<void> SppCosts::add_ranges() {
  LinkCosts links(*problem_->cluster);
  sums_of_range_.assign(partition_.ranges.size(), nullptr);
  rings_.assign(partition_.ranges.size(), {});
  for (int first = 0; first < partition_.num_devices; ++first)
    for (int end = first + 1; end <= partition_.num_devices; ++end) {
      const auto replicas = devices(first, end);
      if (static_cast<int>(replicas.size()) > microbatch_) break;
      const LinkCost ring = links.ring(replicas);
      if (!(ring.per_byte < kNoPartition)) continue;
      PIPEWRIGHT_TRY(const Sums* sums, sums_of(replicas));
      const std::size_t index = partition_.range_index(first, end);
      sums_of_range_[index] = sums;
      rings_[index] = ring;
      auto& range = partition_.ranges[index];
      range.fixed = ring.fixed;
      for (std::size_t c = 0; c < cuts_.size(); ++c)
        range.load.push_back(num_microbatches_ *
                                 (sums->forward[c] + sums->backward[c]) +
                             ring.per_byte * parameters_[c] + sums->update[c]);
    }
  return {};
}

void SppCosts::add_channels() {
  LinkCosts links(*problem_->cluster);
  const CostTable& table = tables_.at(microbatch_);
  for (std::size_t c = 0; c < cuts_.size(); ++c)
    partition_.crossing[c] =
        static_cast<double>(table.crossing(cuts_[c]).value());
  const auto usable = [&](int first, int end) {
    return !partition_.ranges[partition_.range_index(first, end)].load.empty();
  };
  for (int a = 0; a < partition_.num_devices; ++a)
    for (int b = a + 1; b < partition_.num_devices; ++b)
      for (int c = b + 1; c <= partition_.num_devices; ++c) {
        if (!usable(a, b) || !usable(b, c)) continue;
        const LinkCost cost =
            links.channel(devices(a, b), devices(b, c), microbatch_);
        const double times = 2.0 * num_microbatches_;
        partition_.channels[partition_.channel_index(a, b, c)] = {
            cost.per_byte * times, cost.fixed * times};
      }
}

std::vector<StageLoad> SppCosts::loads(
    const std::vector<PartitionStage>& stages) const {
  std::vector<StageLoad> loads;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const PartitionStage& stage = stages[s];
    const std::size_t first = at(stage.first_layer), end = at(stage.end_layer);
    const std::size_t range =
        partition_.range_index(stage.first_device, stage.end_device);
    const Sums& sums = *sums_of_range_[range];
    StageLoad load;
    load.forward = Seconds(sums.forward[end] - sums.forward[first]);
    load.backward = Seconds(sums.backward[end] - sums.backward[first]);
    load.tail = Seconds(
        rings_[range].per_byte * (parameters_[end] - parameters_[first]) +
        rings_[range].fixed + sums.update[end] - sums.update[first]);
    if (s + 1 < stages.size()) {
      const auto& channel = partition_.channels[partition_.channel_index(
          stage.first_device, stage.end_device, stages[s + 1].end_device)];
      load.channel = Seconds(
          (partition_.crossing[end] * channel.per_byte + channel.fixed) /
          (2.0 * num_microbatches_));
    }
    loads.push_back(load);
  }
  return loads;
}

Result<void> SppCosts::add_kept() {
  PIPEWRIGHT_TRY(
      const std::vector<LayerSizes> sizes,
      sizes_at(*problem_->profile, microbatch_, Outside::Extrapolate));
  KeptStorages storages(*problem_->profile, sizes);
  const int blocks = partition_.num_layers;
  kept_.assign(at(blocks + 1) * at(blocks + 1), 0.0F);
  for (int first = 0; first < blocks; ++first) {
    storages.start();
    double sum = 0;
    for (int end = first + 1; end <= blocks; ++end) {
      for (int l = cuts_[at(end - 1)]; l < cuts_[at(end)]; ++l)
        sum = storages.add(LayerId(l));
      // Slightly less than the double, so that it stays a lower bound.
      kept_[at(first) * at(blocks + 1) + at(end)] =
          static_cast<float>(sum * (1 - 1e-6));
    }
  }
  return {};
}

double SppCosts::needed(int first_block, int end_block, int on_samples,
                        int held) const {
  const double weights =
      parameters_[at(end_block)] - parameters_[at(first_block)];
  const double kept =
      kept_[at(first_block) * at(partition_.num_layers + 1) + at(end_block)];
  return weights * (2 + problem_->optimizer_words) +
         kept * held * on_samples / microbatch_;
}

Bytes SppCosts::memory(const PartitionStage& stage, int held) const {
  return Bytes(
      static_cast<std::int64_t>(needed(stage.first_layer, stage.end_layer,
                                       samples(devices(stage).size()), held)));
}

Bytes SppCosts::memory_limit(const PartitionStage& stage) const {
  Bytes least = Bytes::max();
  for (DeviceId device : devices(stage))
    least = std::min(least, problem_->memory_of(device));
  return least;
}

PartitionProblem SppCosts::compute_only() const {
  PartitionProblem problem = partition_;
  for (int first = 0; first < problem.num_devices; ++first)
    for (int end = first + 1; end <= problem.num_devices; ++end) {
      PartitionProblem::Range& range =
          problem.ranges[problem.range_index(first, end)];
      range.fixed = 0;
      if (end > first + 1) range.load.clear();
    }
  for (PartitionProblem::Channel& channel : problem.channels)
    if (channel.per_byte < kNoPartition) channel = {};
  return problem;
}

PartitionProblem SppCosts::partition_within_memory() const {
  PartitionProblem limited = partition_;
  limited.farthest = [this](int stages, int first, int end) {
    const PartitionStage range{first, end, 0, 0};
    const auto limit = static_cast<double>(memory_limit(range).value());
    const int on_samples = samples(devices(range).size());
    const int held = std::min(stages, num_microbatches_);
    const int blocks = partition_.num_layers;
    std::vector<int> farthest;
    int reach = 0;
    for (int l = 0; l < blocks; ++l) {
      reach = std::max(reach, l);
      while (reach < blocks && needed(l, reach + 1, on_samples, held) <= limit)
        ++reach;
      farthest.push_back(reach);
    }
    return farthest;
  };
  return limited;
}

}  // namespace pipewright
