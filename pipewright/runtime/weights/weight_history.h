// All versions of a group of weights, from the first on: what the interpreter
// reads, and what a WeightStore with few versions must equal.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/execution/gradients.h"
#include "pipewright/runtime/training/training.h"
#include "pipewright/runtime/weights/step_rule.h"

namespace pipewright {

class WeightHistory {
 public:
  using Weights = std::map<ParameterId, at::Tensor>;

  explicit WeightHistory(Weights first) { versions_.push_back(first); }

  // A version below 0 means 0. With steps_back > 0 extrapolated back along the
  // velocity that the weights had at that version, but not before version 0.
  at::Tensor read(ParameterId id, std::int32_t version,
                  double steps_back) const;
  const Weights& version(std::int32_t version) const;
  const Weights& newest() const { return versions_.back(); }

  void install(std::int32_t version, Weights weights);
  // Makes the next version, each parameter by its rule.
  void step(const TrainingSettings& settings,
            const std::function<StepRule(ParameterId)>& rule,
            const Gradients& gradients);

 private:
  std::vector<Weights> versions_;
  std::vector<Weights> velocities_;  // of version 1 and on, where one is kept
  std::map<ParameterId, Tensors> state_;
};

}  // namespace pipewright
