#include "pipewright/model/zoo/blocks.h"

namespace pipewright {

TransformerSizes transformer_sizes(const Attributes& settings) {
  return {integer(settings, "layers"), integer(settings, "hidden"),
          integer(settings, "heads"),  integer(settings, "vocab"),
          integer(settings, "seq"),    real(settings, "dropout"),
          flag(settings, "flash")};
}

std::vector<SettingRule> transformer_settings(const TransformerSizes& sizes) {
  return {
      count_setting("layers", sizes.layers, 5000),
      count_setting("hidden", sizes.hidden),
      count_setting("heads", sizes.heads, 65536),
      count_setting("vocab", sizes.vocab, 1 << 28),
      count_setting("seq", sizes.seq),
      dropout_setting(sizes.dropout),
      {.name = "flash", .type = SettingType::Flag, .fallback = sizes.flash}};
}

Source self_attention(Sketch& sketch, const std::string& prefix, Source x,
                      const TransformerSizes& sizes, bool causal) {
  x = sketch.linear(prefix + "qkv", x, 3 * sizes.hidden);
  x = sketch.add(prefix + "attention", LayerKind::Attention, {x},
                 {{"heads", sizes.heads},
                  {"causal", causal},
                  {"flash", sizes.flash},
                  {"dropout", sizes.dropout}});
  x = sketch.linear(prefix + "projection", x, sizes.hidden);
  return sketch.dropout(prefix + "dropout", x, sizes.dropout);
}

Source feed_forward(Sketch& sketch, const std::string& prefix, Source x,
                    const TransformerSizes& sizes, LayerKind activation,
                    const Attributes& attributes) {
  x = sketch.linear(prefix + "fc1", x, 4 * sizes.hidden);
  x = sketch.add(prefix + to_text(activation), activation, {x}, attributes);
  x = sketch.linear(prefix + "fc2", x, sizes.hidden);
  return sketch.dropout(prefix + "fc_dropout", x, sizes.dropout);
}

}  // namespace pipewright
