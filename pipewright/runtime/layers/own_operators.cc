#include "pipewright/runtime/layers/own_operators.h"

#include "pipewright/runtime/layers/gelu_tensors.h"

namespace pipewright {
namespace {

at::Tensor own_gelu(const std::vector<c10::IValue>& arguments) {
  return gelu_of(arguments[0].toTensor(), arguments[1].toStringView());
}

at::Tensor own_gelu_backward(const std::vector<c10::IValue>& arguments) {
  return gelu_gradient(arguments[0].toTensor(), arguments[1].toTensor(),
                       arguments[2].toStringView());
}

}  // namespace

OwnOperator own_operator(std::string_view name) {
  if (name == "aten::gelu") return own_gelu;
  if (name == "aten::gelu_backward") return own_gelu_backward;
  return nullptr;
}

}  // namespace pipewright
