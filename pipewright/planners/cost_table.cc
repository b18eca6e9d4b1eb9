#include "pipewright/planners/cost_table.h"

#include <set>

namespace pipewright {
namespace {

std::vector<double> prefix_sums(const std::vector<LayerTimes>& times,
                                Seconds (*part)(const LayerTimes&)) {
  std::vector<double> sums(1, 0.0);
  for (const LayerTimes& layer : times)
    sums.push_back(sums.back() + part(layer).value());
  return sums;
}

}  // namespace

Result<CostTable> CostTable::create(const Profile& profile,
                                    const Cluster& cluster, int microbatch) {
  CostTable table;
  table.num_layers_ = profile.num_layers();
  table.microbatch_ = microbatch;
  for (const DeviceKind& kind : cluster.kinds()) {
    PIPEWRIGHT_TRY(
        const std::vector<LayerTimes> times,
        times_at(profile, kind.name, microbatch, Outside::Extrapolate));
    table.forward_.push_back(
        prefix_sums(times, [](const LayerTimes& t) { return t.forward; }));
    table.backward_.push_back(
        prefix_sums(times, [](const LayerTimes& t) { return t.backward(); }));
    table.backward_input_.push_back(prefix_sums(
        times, [](const LayerTimes& t) { return t.backward_input; }));
    table.update_.push_back(
        prefix_sums(times, [](const LayerTimes& t) { return t.update; }));
  }
  PIPEWRIGHT_TRY(const std::vector<LayerSizes> sizes,
                 sizes_at(profile, microbatch, Outside::Extrapolate));
  const std::vector<LayerId> storage = profile.storages();
  table.parameters_.assign(1, Bytes(0));
  table.crossing_.assign(at(table.num_layers_) + 1, Bytes(0));
  std::vector<int> last_use(profile.layers.size(), -1);
  for (std::size_t l = 0; l < profile.layers.size(); ++l) {
    const ProfileLayer& layer = profile.layers[l];
    table.parameters_.push_back(table.parameters_.back() +
                                profile.parameter_bytes(LayerId(l)));
    std::set<int> kept;
    for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
      const int input = storage[layer.inputs[i].index()].value;
      last_use[at(input)] = static_cast<int>(l);
      if (layer.keeps_input[i]) kept.insert(input);
    }
    if (layer.keeps_output) kept.insert(storage[l].value);
    auto& keeps = table.keeps_.emplace_back();
    for (int s : kept) keeps.emplace_back(s, sizes[at(s)].output);
    keeps.emplace_back(-1, sizes[l].keeps_private);
  }
  for (std::size_t l = 0; l < profile.layers.size(); ++l)
    for (int position = static_cast<int>(l) + 1; position <= last_use[l];
         ++position)
      table.crossing_[at(position)] += sizes[l].output;
  return table;
}

CostTable CostTable::grouped(const std::vector<int>& positions) const {
  const auto picked = [&](const auto& of_positions) {
    auto few = of_positions;
    few.clear();
    for (int position : positions) few.push_back(of_positions[at(position)]);
    return few;
  };
  CostTable table = *this;
  table.num_layers_ = static_cast<int>(positions.size()) - 1;
  for (auto* times : {&table.forward_, &table.backward_, &table.backward_input_,
                      &table.update_})
    for (auto& sums : *times) sums = picked(sums);
  table.parameters_ = picked(parameters_);
  table.crossing_ = picked(crossing_);
  table.keeps_.assign(at(table.num_layers_), {});
  for (int g = 0; g < table.num_layers_; ++g) {
    std::set<int> counted;
    for (int l = positions[at(g)]; l < positions[at(g + 1)]; ++l)
      for (const auto& [storage, bytes] : keeps_[at(l)])
        if (storage < 0 || counted.insert(storage).second)
          table.keeps_[at(g)].emplace_back(storage, bytes);
  }
  return table;
}

Bytes CostTable::kept(int first, int end) const {
  std::set<int> counted;
  Bytes sum;
  for (int l = first; l < end; ++l)
    for (const auto& [storage, bytes] : keeps_[at(l)])
      if (storage < 0 || counted.insert(storage).second) sum += bytes;
  return sum;
}

std::vector<Bytes> CostTable::kept_until(int end, Bytes limit) const {
  std::set<int> counted;
  std::vector<Bytes> sums(1, Bytes(0));
  for (int l = end - 1; l >= 0 && sums.back() <= limit; --l) {
    Bytes sum = sums.back();
    for (const auto& [storage, bytes] : keeps_[at(l)])
      if (storage < 0 || counted.insert(storage).second) sum += bytes;
    sums.push_back(sum);
  }
  return sums;
}

std::vector<Bytes> CostTable::kept_from(int first) const {
  std::set<int> counted;
  std::vector<Bytes> sums(1, Bytes(0));
  for (int l = first; l < num_layers_; ++l) {
    Bytes sum = sums.back();
    for (const auto& [storage, bytes] : keeps_[at(l)])
      if (storage < 0 || counted.insert(storage).second) sum += bytes;
    sums.push_back(sum);
  }
  return sums;
}

}  // namespace pipewright
