// Weight gradients of one worker, added up over the microbatches of a
// minibatch, layer by layer; of several minibatches where a stage starts one
// before it has stepped the last.

#pragma once

#include <cstdint>
#include <vector>

#include "pipewright/base/ids.h"
#include "pipewright/runtime/tensors.h"

namespace pipewright {

class GradientSums {
 public:
  explicit GradientSums(int num_layers) : layers_(num_layers) {}

  // Empty before the first microbatch. By parameter of the layer.
  Tensors& of(LayerId layer, std::int32_t minibatch);
  // Null if there is no gradient.
  const Tensors* find(LayerId layer, std::int32_t minibatch) const;
  void drop(LayerId layer, std::int32_t minibatch);
  void clear();

 private:
  static constexpr std::int32_t kNone = -1;
  struct Sum {
    std::int32_t minibatch = kNone;
    Tensors tensors;
  };
  std::vector<std::vector<Sum>> layers_;  // by LayerId; few in each
};

}  // namespace pipewright
