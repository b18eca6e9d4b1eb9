#include "pipewright/runtime/layers/gelu_tensors.h"

#include "pipewright/runtime/layers/gelu_kernels.h"

namespace pipewright {
namespace {

bool is_plain(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.scalar_type() == at::kFloat &&
         tensor.is_contiguous();
}

GeluForm form_of(std::string_view approximate) {
  return approximate == "tanh" ? GeluForm::Tanh : GeluForm::Erf;
}

}  // namespace

at::Tensor gelu_of(const at::Tensor& input, std::string_view approximate) {
  if (!is_plain(input)) return at::gelu(input, approximate);
  at::Tensor output = at::empty_like(input);
  gelu(form_of(approximate), input.const_data_ptr<float>(),
       output.data_ptr<float>(), input.numel());
  return output;
}

at::Tensor gelu_gradient(const at::Tensor& gradient, const at::Tensor& input,
                         std::string_view approximate) {
  if (!is_plain(input) || !is_plain(gradient))
    return at::gelu_backward(gradient, input, approximate);
  at::Tensor of_input = at::empty_like(input);
  gelu_backward(form_of(approximate), gradient.const_data_ptr<float>(),
                input.const_data_ptr<float>(), of_input.data_ptr<float>(),
                input.numel());
  return of_input;
}

}  // namespace pipewright
