// A layer divided by its outputs, so that two devices can compute it: a linear
// or a convolution becomes two parts and a join.
//
// With fc@24, layer "fc" becomes fc.part0, which has its first 24 outputs (the
// first rows of its weights), fc.part1, which has the others, and "fc", which
// joins both (concat). Each part reads the whole input. Their initial weights
// are those of the whole layer (initial_parameters.h), so that the model
// computes the same; only the gradient of the input, now a sum of two, may be
// rounded differently. No planner, simulator or executor knows about it.
//
// Zoo models and model files have the setting "split" for it:
// mlp:split=output@4, mine.json:split=fc@24. The functions of an exported layer
// compute all its outputs at once: it stays whole.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/model/model.h"

namespace pipewright {

struct LayerSplit {
  std::string layer;
  std::int64_t outputs = 0;  // of the first part

  bool operator==(const LayerSplit&) const = default;
};

// "fc@24+conv1@8"; "" is no split. Fails with MalformedInput.
Result<std::vector<LayerSplit>> parse_splits(std::string_view text);
std::string to_text(const std::vector<LayerSplit>& splits);

// Features or channels of a linear or convolution.
std::int64_t num_outputs(const Layer& layer);
// Why the layer cannot be split; "" if it can.
std::string why_not_split(const Model& model, LayerId layer);

// The model with these layers split; a part can be split again. Fails with
// BadConfiguration, naming the layer.
Result<Model> with_splits(const Model& model,
                          const std::vector<LayerSplit>& splits);

}  // namespace pipewright
