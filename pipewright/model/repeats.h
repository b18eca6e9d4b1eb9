// Runs of equal blocks in a model: layers "block0.norm", "block0.fc",
// "block1.norm", ... that differ only in the number. The model file and the
// table of `pipewright models` show such a block once.

#pragma once

#include <string>
#include <vector>

#include "pipewright/model/model.h"

namespace pipewright {

struct BlockRun {
  int first = 0;           // layer
  int length = 0;          // layers in a block
  int count = 1;           // blocks, at least 2
  std::string stem;        // "block": the name before the number
  std::int64_t start = 0;  // the first block's number

  // Per layer of a block and input: whether it takes the block's input (the
  // output of the layer before the block).
  std::vector<std::vector<bool>> takes_in;

  int end() const { return first + length * count; }
};

// Runs of at least two blocks, in order, without overlap.
std::vector<BlockRun> repeated_blocks(const Model& model);

// The layer's name within its block: "norm" of "block0.norm".
std::string local_name(const Layer& layer);

// Whether the parameter is the layer's own, not shared from an earlier one.
bool owns_parameter(const Model& model, const Layer& layer, std::size_t index);
// The kind's name for the parameter, not that of the layer that owns it.
std::string parameter_role(const Model& model, const Layer& layer,
                           std::size_t index);

}  // namespace pipewright
