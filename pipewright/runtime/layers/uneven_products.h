// Products of linear layers whose number of features is not a multiple of 8,
// such as the size of a vocabulary, in 16 bit on a GPU. There a product takes
// several times as long where rows do not begin at multiples of 16 bytes. So
// such rows have space after them, and each product is made of two: of as many
// features as are a multiple of 8, and of the few that are left.

#pragma once

#include <ATen/ATen.h>

namespace pipewright {

// Whether the products of a layer with these weights, features x inputs, are
// made this way.
bool is_uneven(const at::Tensor& weights);

// rows * weights^T + bias; `bias` may be undefined.
at::Tensor uneven_output(const at::Tensor& rows, const at::Tensor& weights,
                         const at::Tensor& bias);
// The same into a tensor that spaced_rows() has made, or some of its rows.
void write_uneven_output(const at::Tensor& rows, const at::Tensor& weights,
                         const at::Tensor& bias, at::Tensor& output);
// gradient * weights
at::Tensor uneven_input_gradient(const at::Tensor& gradient,
                                 const at::Tensor& weights);
// sum = gradient^T * inputs, or with `adds` that is added to it.
void uneven_weight_gradient(const at::Tensor& gradient,
                            const at::Tensor& inputs, bool adds,
                            at::Tensor& sum);

// A tensor of that shape, of which each row begins at a multiple of 16 bytes.
at::Tensor spaced_rows(at::IntArrayRef sizes, const at::TensorOptions& options);

}  // namespace pipewright
