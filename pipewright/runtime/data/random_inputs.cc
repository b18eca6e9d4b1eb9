#include "pipewright/runtime/data/random_inputs.h"

#include <algorithm>
#include <limits>

#include "pipewright/model/exported/exported_model.h"

namespace pipewright {
namespace {

constexpr std::int64_t kNoBound = std::numeric_limits<std::int64_t>::max();

// The bound of a layer's own indices; kNoBound if it reads numbers.
std::int64_t bound_in(const Model& model, const Layer& layer) {
  if (layer.kind == LayerKind::Embedding)
    return integer(layer.attributes, "entries");
  if (layer.kind == LayerKind::CrossEntropy)
    return shape_of(model, layer.inputs[0]).back();
  if (layer.kind == LayerKind::LinearCrossEntropy)
    return integer(layer.attributes, "classes");
  return kNoBound;
}

// An exported model knows its sample inputs, but not what its layers accept.
std::int64_t sample_bound(const Model& model, int input) {
  const std::int64_t known =
      model.exported()
          ? model.exported()->index_bounds[static_cast<std::size_t>(input)]
          : 0;
  return known > 0 ? known : index_bound(model, input);
}

}  // namespace

std::int64_t index_bound(const Model& model, int input) {
  std::int64_t bound = kNoBound;
  for (const Layer& layer : model.layers())
    for (const Source& source : layer.inputs)
      if (source.is_model_input() && source.input == input)
        bound = std::min(bound, bound_in(model, layer));
  return bound;
}

at::Tensor random_tensor(const Shape& sizes, NumberType type,
                         std::int64_t bound, const RandomStream& stream) {
  const bool is_index = !is_floating(type);
  at::Tensor tensor = at::empty(sizes, is_index ? at::kLong : at::kDouble);
  const auto count = static_cast<std::uint64_t>(tensor.numel());
  if (is_index) {
    auto* numbers = tensor.data_ptr<std::int64_t>();
    for (std::uint64_t i = 0; i < count; ++i)
      numbers[i] = static_cast<std::int64_t>(
          stream.bits(i) %
          static_cast<std::uint64_t>(std::clamp<std::int64_t>(bound, 1, 256)));
  } else {
    auto* numbers = tensor.data_ptr<double>();
    for (std::uint64_t i = 0; i < count; ++i) numbers[i] = stream.normal(i);
  }
  return tensor.to(scalar_type(type));
}

at::Tensor random_samples(const Model& model, const Source& source,
                          std::int64_t samples, const RandomStream& stream) {
  Shape sizes = {samples};
  const Shape& shape = shape_of(model, source);
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  const std::int64_t bound =
      source.is_model_input() ? sample_bound(model, source.input) : kNoBound;
  return random_tensor(sizes, type_of(model, source), bound, stream);
}

}  // namespace pipewright
