// How a gradient changes weights. One parameter at a time, in place; the state
// of a parameter is tensors of its shape, as many as words() and, for weights
// of two bytes, mostly one more: a float32 master, which steps too small for
// the weights' own type add up in.

#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>

#include "pipewright/base/result.h"
#include "pipewright/plan/optimizer_choice.h"
#include "pipewright/runtime/fused_kernels.h"
#include "pipewright/runtime/tensors.h"

namespace pipewright {

class Optimizer {
 public:
  explicit Optimizer(bool masters) : masters_(masters) {}
  virtual ~Optimizer() = default;

  virtual int words() const = 0;  // of state per weight
  bool has_master(at::ScalarType weights) const {
    return masters_ && has_two_bytes(weights);
  }

  Tensors first_state(const at::Tensor& weights) const;
  // `step` counts from 0.
  void update(at::Tensor& weights, const at::Tensor& gradient, Tensors& state,
              double rate, std::int64_t step) const;

 private:
  // In the type of the state.
  virtual void change(at::Tensor& weights, const at::Tensor& gradient,
                      Tensors& state, double rate, std::int64_t step) const = 0;
  // All of an update by one kernel. False: there is none for it, and nothing
  // has changed.
  virtual bool change_at_once(const FusedKernels&, at::Tensor&,
                              const at::Tensor&, Tensors&, double) const {
    return false;
  }

  bool masters_;
};

struct SgdSettings {
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool masters = true;  // of weights of two bytes
};
std::shared_ptr<const Optimizer> sgd(const SgdSettings& settings);

struct AdamSettings {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;  // AdamW
  bool masters = true;     // of weights of two bytes
};
std::shared_ptr<const Optimizer> adam(const AdamSettings& settings);

// By name on the command line. Fails as memory_of() does.
Result<std::shared_ptr<const Optimizer>> make_optimizer(
    const OptimizerChoice& choice);

}  // namespace pipewright
