// A bias and its gradient: a row repeated, and rows added up onto what is
// there; and the gradients of a normalisation's gain and shift.

#pragma once

#include <ATen/ATen.h>

namespace pipewright {

// sum += sum over the first dimension of `rows` (two dimensions). Blocks of
// rows are added up before they are added on, so that the error of many rows
// grows with their blocks.
void add_row_sums(at::Tensor& sum, const at::Tensor& rows);

// Two sums over rows of as many columns as `gain` has: gain += that of gradient
// * (input - mean) * scale, shift += that of gradient. `mean` and `scale` have
// a number a row. Row after row, as ATen's own kernel adds; nothing is
// allocated.
void add_normalised_row_sums(at::Tensor& gain, at::Tensor& shift,
                             const at::Tensor& gradient,
                             const at::Tensor& input, const at::Tensor& mean,
                             const at::Tensor& scale);
// Whether it can: contiguous numbers of one type, float or double.
bool can_add_normalised(const at::Tensor& gradient, const at::Tensor& input,
                        const at::Tensor& mean);

// A new tensor of that many rows, each the same.
at::Tensor repeated_row(const at::Tensor& row, std::int64_t num_rows);

}  // namespace pipewright
