// What a bias costs beside the product it is added to: for few rows most of the
// time, unless it is done in one call that asks nothing.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace pipewright {

// `bias` in each of `num_rows` rows: where a product is then added.
at::Tensor repeated_bias(const at::Tensor& bias, std::int64_t num_rows);

// Adds the sum of `rows` to `sum`, the gradient of a bias.
void add_row_sum(const at::Tensor& rows, at::Tensor& sum);

}  // namespace pipewright
