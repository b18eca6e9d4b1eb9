#include "pipewright/runtime/layers/uneven_products.h"

#include <utility>
#include <vector>

#include "pipewright/runtime/tensors.h"

namespace pipewright {
namespace {

constexpr std::int64_t kUnit = 8;            // numbers of 16 bit in 16 bytes
constexpr std::int64_t kMinFeatures = 1024;  // below it nothing is gained

std::int64_t even_part(std::int64_t features) {
  return features - features % kUnit;
}

// Both parts of a dimension of features.
std::pair<at::Tensor, at::Tensor> parts(const at::Tensor& tensor,
                                        std::int64_t dimension) {
  const std::int64_t all = tensor.size(dimension), even = even_part(all);
  return {tensor.narrow(dimension, 0, even),
          tensor.narrow(dimension, even, all - even)};
}

bool is_spaced(const at::Tensor& rows) {
  return rows.stride(1) == 1 && rows.stride(0) % kUnit == 0 &&
         reinterpret_cast<std::uintptr_t>(rows.const_data_ptr()) % 16 == 0;
}

// What was sent or added up has lost its space.
at::Tensor spaced(const at::Tensor& rows) {
  if (is_spaced(rows)) return rows;
  at::Tensor copy = spaced_rows(rows.sizes(), rows.options());
  copy.copy_(rows);
  return copy;
}

}  // namespace

bool is_uneven(const at::Tensor& weights) {
  return weights.is_cuda() && has_two_bytes(weights.scalar_type()) &&
         weights.size(0) >= kMinFeatures && weights.size(0) % kUnit != 0 &&
         weights.size(1) % kUnit == 0;
}

at::Tensor spaced_rows(at::IntArrayRef sizes,
                       const at::TensorOptions& options) {
  std::vector<std::int64_t> spaced = sizes.vec();
  constexpr std::int64_t kLine = 8 * kUnit;  // of memory
  if (spaced.back() >= kMinFeatures)
    spaced.back() = (spaced.back() + kLine - 1) / kLine * kLine;
  return at::empty(spaced, options).narrow(-1, 0, sizes.back());
}

at::Tensor uneven_output(const at::Tensor& rows, const at::Tensor& weights,
                         const at::Tensor& bias) {
  at::Tensor output =
      spaced_rows({rows.size(0), weights.size(0)}, rows.options());
  write_uneven_output(rows, weights, bias, output);
  return output;
}

void write_uneven_output(const at::Tensor& rows, const at::Tensor& weights,
                         const at::Tensor& bias, at::Tensor& output) {
  const auto [even, rest] = parts(output, 1);
  const auto [even_weights, rest_weights] = parts(weights, 0);
  at::Tensor first = even, second = rest;
  if (bias.defined()) {
    const auto [even_bias, rest_bias] = parts(bias, 0);
    at::addmm_out(first, even_bias, rows, even_weights.t());
    at::addmm_out(second, rest_bias, rows, rest_weights.t());
  } else {
    at::mm_out(first, rows, even_weights.t());
    at::mm_out(second, rows, rest_weights.t());
  }
}

at::Tensor uneven_input_gradient(const at::Tensor& gradient,
                                 const at::Tensor& weights) {
  const auto [even, rest] = parts(spaced(gradient), 1);
  const auto [even_weights, rest_weights] = parts(weights, 0);
  return at::mm(even, even_weights).addmm_(rest, rest_weights);
}

void uneven_weight_gradient(const at::Tensor& gradient,
                            const at::Tensor& inputs, bool adds,
                            at::Tensor& sum) {
  const auto [even, rest] = parts(spaced(gradient), 1);
  const auto [even_sum, rest_sum] = parts(sum, 0);
  at::Tensor first = even_sum, second = rest_sum;
  if (adds) {
    first.addmm_(even.t(), inputs);
    second.addmm_(rest.t(), inputs);
  } else {
    at::mm_out(first, even.t(), inputs);
    at::mm_out(second, rest.t(), inputs);
  }
}

}  // namespace pipewright
