// What the interpreter remembers of one worker: everything, by name, and
// nothing is ever freed.

#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "pipewright/runtime/execution/gradients.h"
#include "pipewright/runtime/execution/value_store.h"
#include "pipewright/runtime/weights/weight_history.h"

namespace pipewright {

using MessageKey = std::pair<TransferId, MicrobatchId>;

struct InterpretedWorker {
  explicit InterpretedWorker(int num_layers) : values(num_layers) {}

  // Null if there is no gradient.
  const Tensors* find_gradients(std::int32_t minibatch, LayerId layer) const {
    const auto found = gradients.find({minibatch, layer});
    return found == gradients.end() ? nullptr : &found->second;
  }

  ValueStore values;
  std::set<MessageKey> taken;
  std::map<MessageKey, std::vector<Tensors>> arrived;
  std::map<WeightGroupId, WeightHistory> groups;
  std::map<std::pair<std::int32_t, LayerId>, Tensors> gradients;  // minibatch
  std::map<LayerId, Tensors> statistics;
};

// A running sum of what the users of a layer's output have given so far.
inline void add_to_sum(ValueStore& values, Value value, MicrobatchId microbatch,
                       Samples samples, const at::Tensor& gradient) {
  at::Tensor sum = gradient;
  if (values.has(value, microbatch))
    sum = values.read(value, microbatch, samples).at(0).add(gradient);
  values.replace(value, microbatch, samples, {sum});
}

}  // namespace pipewright
