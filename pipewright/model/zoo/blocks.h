// Shared by the transformer families: sizes, and the two halves of a block.

#pragma once

#include "pipewright/model/zoo/sketch.h"

namespace pipewright {

struct TransformerSizes {
  std::int64_t layers, hidden, heads, vocab, seq;
  double dropout;
  bool flash = false;
};
TransformerSizes transformer_sizes(const Attributes& settings);

// layers, hidden, heads, vocab, seq, dropout, flash: the settings of those
// sizes.
std::vector<SettingRule> transformer_settings(const TransformerSizes& sizes);

// Query, key and value projected in one product, attention, projection,
// dropout. Names are prefix + "qkv", "attention", ...
Source self_attention(Sketch& sketch, const std::string& prefix, Source x,
                      const TransformerSizes& sizes, bool causal);

// To four times the features and back, with the activation between.
Source feed_forward(Sketch& sketch, const std::string& prefix, Source x,
                    const TransformerSizes& sizes, LayerKind activation,
                    const Attributes& attributes = {});

}  // namespace pipewright
