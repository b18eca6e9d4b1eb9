// A layer that computes: pure functions over ATen's own kernels.
//
// forward() answers with the output and with the private tensors that backward
// keeps beyond inputs and output; which of the three are kept is what
// layer_cost() declares, to the byte. All that is kept is plain tensors whose
// first dimension is the samples (batch statistics excepted), so it can be
// sliced and can cross a process border. Nothing is remembered between calls:
// forward of one worker and backward of another are the same as both on one.
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
  // Which samples of the microbatch these are: replicas that split it draw the
  // same dropout mask as one worker would.
  std::int64_t first_sample = 0;
  std::int64_t microbatch_samples = 0;
  bool training = true;
  // Updated in place when not null: a layer's running statistics, held by who
  // runs its forward. A recomputation leaves it null.
  Tensors* statistics = nullptr;
};

struct Forwarded {
  at::Tensor output;
  Tensors kept_private;
};

// What backward looks at; tensors that the layer does not keep are undefined.
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

  // `gradient` is that of the output. An input that needs none (the
  // model's own, and what comes of them without parameters) gets none. What the
  // other half would otherwise compute again goes into `carried` when that is
  // not null.
  virtual Tensors backward_input(const KeptTensors& kept,
                                 const Tensors& weights,
                                 const at::Tensor& gradient,
                                 Tensors* carried) const = 0;

  // By parameter; only for layers that have some. Each a tensor of its own.
  virtual Tensors backward_weight(const KeptTensors& kept,
                                  const at::Tensor& gradient,
                                  const Tensors& carried) const;

  // Adds the same to sums that backward_weight began. Where a kernel can add by
  // itself nothing is allocated; bits then differ from those of adding after.
  virtual void add_backward_weight(const KeptTensors& kept,
                                   const at::Tensor& gradient,
                                   const Tensors& carried, Tensors& sums) const;

  // Running statistics as they are before the first step; none for most.
  virtual Tensors initial_statistics() const { return {}; }
};

at::ScalarType scalar_type(NumberType type);

}  // namespace pipewright
