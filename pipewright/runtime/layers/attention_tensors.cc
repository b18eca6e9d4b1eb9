#include "pipewright/runtime/layers/attention_tensors.h"

namespace pipewright {

AttentionTensors unpacked(const Tensors& inputs) {
  if (inputs.size() == 3) return {inputs[0], inputs[1], inputs[2]};
  if (inputs.size() == 2) {
    const auto pair = inputs[1].chunk(2, 2);
    return {inputs[0], pair[0], pair[1]};
  }
  const auto all = inputs[0].chunk(3, 2);
  return {all[0], all[1], all[2]};
}

Tensors packed(const AttentionTensors& gradients,
               const LayerDescription& description) {
  const auto& [query, key, value] = gradients;
  const std::size_t inputs = description.input_shapes.size();
  Tensors result = inputs == 3   ? Tensors{query, key, value}
                   : inputs == 2 ? Tensors{query, at::cat({key, value}, 2)}
                                 : Tensors{at::cat({query, key, value}, 2)};
  for (std::size_t i = 0; i < inputs; ++i)
    if (!description.wants_gradient(i)) result[i] = at::Tensor();
  return result;
}

at::Tensor future_positions(const LayerDescription& description) {
  const auto& shapes = description.input_shapes;
  return at::ones({shapes.front()[0], shapes.back()[0]}, at::kBool).triu(1);
}

}  // namespace pipewright
