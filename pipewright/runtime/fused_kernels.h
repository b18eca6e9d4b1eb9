// Kernels of a device that take the place of several of LibTorch's: they pass
// over memory less often, and are fewer. A layer asks for them by a tensor and
// uses LibTorch's where there are none: on cores, where they cannot be
// compiled, and for types other than float32 and bfloat16.
//
// Everything is added up in float32 and in an order that depends on shapes
// only: bits are the same on every stream and share of a device.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "pipewright/runtime/random_stream.h"

namespace pipewright {

class FusedKernels {
 public:
  virtual ~FusedKernels() = default;

  // Of the whole device, also where its worker has a share.
  virtual int num_multiprocessors() const = 0;

  // Of rows x classes and a class for each row: the loss of each row, in
  // float32, and what `derivative`, a tensor like the logits, gets: the
  // probabilities, less one at the target. It may be the logits themselves.
  virtual at::Tensor cross_entropy(const at::Tensor& logits,
                                   const at::Tensor& targets,
                                   at::Tensor& derivative) const = 0;
  // result = rows * factor * scale; `factor` is one number on the device.
  virtual void multiply(const at::Tensor& rows, const at::Tensor& factor,
                        double scale, at::Tensor& result) const = 0;

  // A layer norm of rows of at most kMaxNormColumns: the result, and the mean
  // and the scale of each row, in float32 tensors of one number per row.
  virtual void normalize(const at::Tensor& rows, const at::Tensor& gain,
                         const at::Tensor& shift, double epsilon,
                         at::Tensor& result, at::Tensor& mean,
                         at::Tensor& scale) const = 0;
  // The gradient of its input; with `adds` it is added to `result`, with the
  // bits of adding it afterwards.
  virtual void normalize_backward(const at::Tensor& gradient,
                                  const at::Tensor& input,
                                  const at::Tensor& gain,
                                  const at::Tensor& mean,
                                  const at::Tensor& scale, bool adds,
                                  at::Tensor& result) const = 0;
  static constexpr std::int64_t kMaxNormColumns = 1024;

  // Which elements dropout keeps: `keep` is filled from element `first` on of
  // the stream. `microbatch` is one number on the device.
  virtual void draw_mask(const LayerStream& stream,
                         const at::Tensor& microbatch, std::int64_t first,
                         double rate, at::Tensor& keep) const = 0;

  // What follows adds to sums, or with `is_first` begins them.

  // The sum over rows.
  virtual void sum_rows(const at::Tensor& rows, bool is_first,
                        at::Tensor& sum) const = 0;
  // The gradients of a layer norm's gain and shift: the sums over rows of
  // gradient * (input - mean) * scale, and of gradient.
  virtual void sum_norm(const at::Tensor& gradient, const at::Tensor& input,
                        const at::Tensor& mean, const at::Tensor& scale,
                        bool is_first, at::Tensor& gain,
                        at::Tensor& shift) const = 0;
  // table[tokens[i]] += scale * rows[i].
  virtual void add_to_table(const at::Tensor& tokens, const at::Tensor& rows,
                            double scale, at::Tensor& table) const = 0;

  // A step of gradient descent: master -= rate * gradient, and weights get the
  // master's numbers; undefined: weights are their own. With a velocity it
  // first becomes momentum * velocity + gradient, and takes the gradient's
  // place. All are contiguous; master and velocity are float32.
  virtual void descend(const at::Tensor& gradient, double rate, double momentum,
                       at::Tensor& velocity, at::Tensor& master,
                       at::Tensor& weights) const = 0;
};

// For tensors like this one; null: LibTorch's kernels.
const FusedKernels* fused_kernels(const at::Tensor& tensor);

// From now on, for tensors on GPUs; null: none. Must outlive their use.
void use_fused_kernels(const FusedKernels* kernels);

}  // namespace pipewright
