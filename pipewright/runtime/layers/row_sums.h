// A bias and its gradient: a row repeated, and rows added up onto what is
// there.

#pragma once

#include <ATen/ATen.h>

namespace pipewright {

// sum += sum over the first dimension of `rows` (two dimensions). Blocks of
// rows are added up before they are added on, so that the error of many rows
// grows with their blocks.
void add_row_sums(at::Tensor& sum, const at::Tensor& rows);

// A new tensor of that many rows, each the same.
at::Tensor repeated_row(const at::Tensor& row, std::int64_t num_rows);

}  // namespace pipewright
