// The memory side of SppCosts: what a stage keeps, and how far it may reach.
// The paper's model has no memory; this is ours. It is a lower bound (no
// workspace, no buffers), so that it never refuses what would fit; the
// estimator has the last word.

#include <algorithm>

#include "pipewright/base/index.h"
#include "pipewright/planners/spp/spp_costs.h"

namespace pipewright {
namespace {

// Kept bytes of growing runs of layers, each storage once.
class KeptStorages {
 public:
  KeptStorages(const Profile& profile, const std::vector<LayerSizes>& sizes)
      : profile_(profile), sizes_(sizes), counted_(sizes.size(), -1) {
    for (std::size_t l = 0; l < sizes.size(); ++l) {
      const ProfileLayer& layer = profile.layers[l];
      const bool view = layer.output_is_view && !layer.inputs.empty();
      storage_.push_back(view ? storage_[layer.inputs[0].index()] : l);
    }
  }

  void start() {
    ++run_;
    sum_ = 0;
  }
  double with(int l) {
    const ProfileLayer& layer = profile_.layers[at(l)];
    for (std::size_t i = 0; i < layer.inputs.size(); ++i)
      if (layer.keeps_input[i]) count(layer.inputs[i].index());
    if (layer.keeps_output) count(at(l));
    sum_ += static_cast<double>(sizes_[at(l)].keeps_private.value());
    return sum_;
  }

 private:
  void count(std::size_t layer) {
    const std::size_t storage = storage_[layer];
    if (counted_[storage] == run_) return;
    counted_[storage] = run_;
    sum_ += static_cast<double>(sizes_[storage].output.value());
  }

  const Profile& profile_;
  const std::vector<LayerSizes>& sizes_;
  std::vector<int> counted_;  // in which run it was
  std::vector<std::size_t> storage_;
  int run_ = -1;
  double sum_ = 0;
};

}  // namespace

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
        sum = storages.with(l);
      // A hair less than the double, so that it stays a lower bound.
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
