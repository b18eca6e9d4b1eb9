// What a layer computes: pure functions, mostly over ATen's own kernels.
//
// forward() returns the output and the private tensors that backward needs
// besides inputs and output; layer_cost() declares to the byte which of the
// three are kept. What is kept is plain tensors whose first dimension is the
// samples (except batch statistics), so it can be sliced and sent to another
// rank. Functions have no state: forward on one worker and backward on another
// give the same as both on one.
//
// No stage, schedule, thread or weight version is known here.

#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "pipewright/model/model.h"
#include "pipewright/runtime/tensors.h"

namespace pipewright {

// What a forward depends on besides inputs and weights.
struct ForwardContext {
  std::uint64_t seed = 0;
  std::int64_t microbatch = 0;  // from the start of training
  // The first of the microbatch's samples that is given: replicas that split it
  // draw the same dropout mask as one worker would.
  std::int64_t first_sample = 0;
  bool training = true;
  // A layer's running statistics, updated in place; null in a recomputation.
  Tensors* statistics = nullptr;
  // The same number of the microbatch, where the device's kernels can read it;
  // undefined: nowhere.
  at::Tensor number = {};
  // Set where random numbers are drawn by `microbatch`, so that kernels which
  // are given again would draw the same; may be null.
  bool* draws = nullptr;
};

struct Forwarded {
  at::Tensor output;
  Tensors kept_private;
};

// What backward reads; tensors that the layer does not keep are undefined.
struct KeptTensors {
  Tensors inputs;
  at::Tensor output;
  Tensors kept_private;
};

class LayerFunction {
 public:
  virtual ~LayerFunction() = default;

  virtual Forwarded forward(const Tensors& inputs, const Tensors& weights,
                            const ForwardContext& context) const = 0;

  // `gradient` is that of the output. An input that needs no gradient (the
  // model's own inputs, and what is computed from them without parameters) gets
  // an undefined tensor. What backward_weight() would otherwise compute again
  // is put into `carried` if that is not null.
  virtual Tensors backward_input(const KeptTensors& kept,
                                 const Tensors& weights,
                                 const at::Tensor& gradient,
                                 Tensors* carried) const = 0;

  // For a layer with one input: adds what backward_input() would return to
  // `sum`, a contiguous tensor, with the same bits, and carries nothing. False:
  // it cannot, and nothing has changed.
  virtual bool add_backward_input(const KeptTensors&, const Tensors&,
                                  const at::Tensor&, at::Tensor&) const {
    return false;
  }

  // Gradients by parameter, in new tensors; only for layers with parameters.
  virtual Tensors backward_weight(const KeptTensors& kept,
                                  const at::Tensor& gradient,
                                  const Tensors& carried) const;

  // Adds the same to the sums that backward_weight() began. Where a kernel can
  // add by itself nothing is allocated; the bits then differ from those of
  // adding afterwards.
  virtual void add_backward_weight(const KeptTensors& kept,
                                   const at::Tensor& gradient,
                                   const Tensors& carried, Tensors& sums) const;

  // Whether forward draws random numbers in training.
  virtual bool draws() const { return false; }

  // Running statistics before the first step; most layers have none.
  virtual Tensors initial_statistics() const { return {}; }
};

at::ScalarType scalar_type(NumberType type);

}  // namespace pipewright
