#include "pipewright/runtime/layers/own_operators.h"

#include <ATen/ATen.h>

#include <cmath>

#include "pipewright/runtime/layers/flash_kernels.h"
#include "pipewright/runtime/layers/gelu_tensors.h"

namespace pipewright {
namespace {

using Arguments = std::vector<c10::IValue>;

Tensors own_gelu(const Arguments& arguments) {
  return {gelu_of(arguments[0].toTensor(), arguments[1].toStringView())};
}

Tensors own_gelu_backward(const Arguments& arguments) {
  return {gelu_gradient(arguments[0].toTensor(), arguments[1].toTensor(),
                        arguments[2].toStringView())};
}

// From `first` on: causal or not, mask, scale.
FlashSettings flash_settings(const Arguments& arguments, std::size_t first,
                             const at::Tensor& query) {
  const c10::IValue &mask = arguments[first + 1], &scale = arguments[first + 2];
  return {arguments[first].toBool(),
          scale.isNone() ? 1 / std::sqrt(static_cast<double>(query.size(3)))
                         : scale.toDouble(),
          mask.isNone() ? at::Tensor() : mask.toTensor()};
}

// A model exported on cores names the kernel of cores, which drops nothing.
Tensors own_attention(const Arguments& arguments) {
  const AttentionTensors heads = {arguments[0].toTensor(),
                                  arguments[1].toTensor(),
                                  arguments[2].toTensor()};
  auto [output, sums] =
      flash_attention(heads, flash_settings(arguments, 4, heads.query));
  return {output, sums};
}

Tensors own_attention_backward(const Arguments& arguments) {
  const AttentionTensors heads = {arguments[1].toTensor(),
                                  arguments[2].toTensor(),
                                  arguments[3].toTensor()};
  const AttentionTensors made = flash_gradients(
      heads, arguments[4].toTensor(), arguments[5].toTensor(),
      arguments[0].toTensor(), flash_settings(arguments, 7, heads.query));
  return {made.query, made.key, made.value};
}

// On GPUs ATen adds a picture's losses in any order; those of rows it does not.
Tensors own_picture_loss(const Arguments& arguments) {
  const at::Tensor input = arguments[0].toTensor();
  const at::Tensor target = arguments[1].toTensor();
  const auto weight = arguments[2].toOptional<at::Tensor>();
  const std::int64_t reduction = arguments[3].toInt();
  const std::int64_t ignored = arguments[4].toInt();
  if (!input.is_cuda() || reduction == at::Reduction::None) {
    auto [loss, total] =
        at::nll_loss2d_forward(input, target, weight, reduction, ignored);
    return {loss, total};
  }
  auto [loss, total] = at::nll_loss_forward(
      input.permute({0, 2, 3, 1}).reshape({-1, input.size(1)}),
      target.reshape(-1), weight, reduction, ignored);
  return {loss, total};
}

}  // namespace

OwnOperator own_operator(std::string_view name) {
  if (name == "aten::gelu") return own_gelu;
  if (name == "aten::gelu_backward") return own_gelu_backward;
  if (name == "aten::_scaled_dot_product_flash_attention_for_cpu")
    return own_attention;
  if (name == "aten::_scaled_dot_product_flash_attention_for_cpu_backward")
    return own_attention_backward;
  if (name == "aten::nll_loss2d_forward") return own_picture_loss;
  return nullptr;
}

}  // namespace pipewright
