// All that training goes on from, under whatever program: what an executor
// gives and takes, processes exchange and a checkpoint holds.

#pragma once

#include <cstdint>
#include <vector>

#include "pipewright/runtime/tensors.h"

namespace pipewright {

struct TrainingState {
  std::int64_t minibatches = 0;     // done
  Tensors parameters;               // by ParameterId
  std::vector<Tensors> statistics;  // by LayerId
  // By ParameterId: none before the first step.
  std::vector<Tensors> optimizer;
  Tensors velocity;  // undefined where weights are not corrected
};

}  // namespace pipewright
