// How a gradient changes weights. One parameter at a time, in place; the state
// of a parameter is tensors of its shape, as many as words().

#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace pipewright {

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  virtual int words() const = 0;  // of state per weight

  // `step` counts from 0; `state` has words() tensors, zero at first.
  virtual void update(at::Tensor& weights, const at::Tensor& gradient,
                      std::vector<at::Tensor>& state, double rate,
                      std::int64_t step) const = 0;
};

struct SgdSettings {
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
};
std::shared_ptr<const Optimizer> sgd(const SgdSettings& settings);

}  // namespace pipewright
