#include "pipewright/runtime/execution/layer_statistics.h"

#include <utility>

namespace pipewright {

LayerStatistics::LayerStatistics(const Network& network, const Program& program,
                                 WorkerId worker) {
  for (const Operation& operation : program.operations) {
    if (operation.worker != worker) continue;
    for (const LayerId layer : operation.forward)
      if (Tensors first =
              network.functions[layer.index()]->initial_statistics();
          !first.empty())
        now_[layer] = std::move(first);
  }
}

void LayerStatistics::restart(const std::vector<Tensors>& first,
                              WorkerDevice& device) {
  for (auto& [layer, tensors] : now_)
    for (std::size_t i = 0; i < tensors.size(); ++i)
      renew(tensors[i], first[layer.index()][i], device);
  minibatch_ = -1;
}

void LayerStatistics::begin(std::int32_t minibatch) {
  if (now_.empty() || minibatch <= minibatch_) return;
  minibatch_ = minibatch;
  for (const auto& [layer, tensors] : now_) {
    Tensors& copies = before_[layer];
    copies.resize(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (copies[i].defined())
        copies[i].copy_(tensors[i]);
      else
        copies[i] = tensors[i].clone();
  }
}

Tensors* LayerStatistics::of(LayerId layer) {
  if (now_.empty()) return nullptr;
  const auto found = now_.find(layer);
  return found == now_.end() ? nullptr : &found->second;
}

std::vector<const void*> LayerStatistics::addresses() const {
  std::vector<const void*> result;
  for (const auto& [layer, tensors] : now_)
    for (const at::Tensor& tensor : tensors)
      result.push_back(tensor.const_data_ptr());
  return result;
}

}  // namespace pipewright
