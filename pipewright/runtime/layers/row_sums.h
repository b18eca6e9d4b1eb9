// The gradient of a bias: rows added up, onto what is there.

#pragma once

#include <ATen/ATen.h>

namespace pipewright {

// sum += sum over the first dimension of `rows` (two dimensions). Blocks of
// rows are added up before they are added on, so that the error of many rows
// grows with their blocks.
void add_row_sums(at::Tensor& sum, const at::Tensor& rows);

}  // namespace pipewright
