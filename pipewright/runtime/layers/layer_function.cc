#include "pipewright/runtime/layers/layer_function.h"

#include "pipewright/base/check.h"

namespace pipewright {

Tensors LayerFunction::backward_weight(const KeptTensors&, const at::Tensor&,
                                       const Tensors&) const {
  return {};
}

void LayerFunction::add_backward_weight(const KeptTensors& kept,
                                        const at::Tensor& gradient,
                                        const Tensors& carried,
                                        Tensors& sums) const {
  const Tensors parts = backward_weight(kept, gradient, carried);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i].add_(parts[i]);
}

at::ScalarType scalar_type(NumberType type) {
  switch (type) {
    case NumberType::Float64:
      return at::kDouble;
    case NumberType::Float32:
      return at::kFloat;
    case NumberType::Float16:
      return at::kHalf;
    case NumberType::BFloat16:
      return at::kBFloat16;
    case NumberType::Int64:
      return at::kLong;
    case NumberType::Int32:
      return at::kInt;
    case NumberType::UInt8:
      return at::kByte;
    case NumberType::Bool:
      return at::kBool;
  }
  PIPEWRIGHT_CHECK(false, "a number type without a scalar type");
}

}  // namespace pipewright
