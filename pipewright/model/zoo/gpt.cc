// GPT-2: pre-norm causal transformer whose output layer is its embedding.
// Radford et al., "Language Models are Unsupervised Multitask Learners", 2019;
// sizes as released.

#include "pipewright/model/zoo/blocks.h"
#include "pipewright/model/zoo/families.h"

namespace pipewright {
namespace {

Source draw_gpt_block(Sketch& sketch, const std::string& prefix, Source x,
                      const TransformerSizes& sizes) {
  Source y = sketch.layer_norm(prefix + "norm1", x);
  y = self_attention(sketch, prefix, y, sizes, /*causal=*/true);
  x = sketch.sum(prefix + "add1", x, y);
  y = sketch.layer_norm(prefix + "norm2", x);
  y = feed_forward(sketch, prefix, y, sizes, LayerKind::Gelu,
                   {{"approximate", std::string("tanh")}});
  return sketch.sum(prefix + "add2", x, y);
}

void draw_gpt(Sketch& sketch, const Attributes& settings) {
  const TransformerSizes sizes = transformer_sizes(settings);
  Source x = sketch.tokens("tokens", {sizes.seq});
  x = sketch.add("embedding", LayerKind::Embedding, {x},
                 {{"entries", sizes.vocab}, {"features", sizes.hidden}});
  x = sketch.add("positions", LayerKind::Positional, {x},
                 {{"positions", integer(settings, "positions")}});
  x = sketch.dropout("dropout", x, sizes.dropout);
  for (std::int64_t i = 0; i < sizes.layers; ++i)
    x = draw_gpt_block(sketch, "block" + std::to_string(i) + ".", x, sizes);
  x = sketch.layer_norm("norm", x);
  std::map<std::string, std::string> shares;
  if (flag(settings, "tied")) shares = {{"weight", "embedding.weight"}};
  if (flag(settings, "fused_loss"))
    return sketch.linear_cross_entropy(x, sizes.vocab, std::move(shares));
  sketch.cross_entropy(
      sketch.add("head", LayerKind::Linear, {x},
                 {{"out_features", sizes.vocab}, {"bias", false}}, shares));
}

ZooEntry gpt_entry(const std::string& name, const std::string& meaning,
                   std::int64_t layers, std::int64_t hidden,
                   std::int64_t heads) {
  ZooEntry entry{
      name, meaning,
      transformer_settings({layers, hidden, heads, 50257, 1024, 0.1}),
      draw_gpt};
  entry.settings.push_back(count_setting("positions", 1024));
  entry.settings.push_back(
      {.name = "tied", .type = SettingType::Flag, .fallback = true});
  entry.settings.push_back(
      {.name = "fused_loss", .type = SettingType::Flag, .fallback = false});
  return entry;
}

// Of any size: by default as many positions as the sequence has.
ZooEntry any_size() {
  ZooEntry entry = gpt_entry("gpt", "GPT-2 of any size", 12, 768, 12);
  for (SettingRule& rule : entry.settings)
    if (rule.name == "positions") {
      rule.fallback.reset();
      rule.same_as = "seq";
    }
  return entry;
}

}  // namespace

std::vector<ZooEntry> gpt_family() {
  return {any_size(), gpt_entry("gpt2", "GPT-2 small (2019)", 12, 768, 12),
          gpt_entry("gpt2-medium", "GPT-2 medium (2019)", 24, 1024, 16),
          gpt_entry("gpt2-large", "GPT-2 large (2019)", 36, 1280, 20),
          gpt_entry("gpt2-xl", "GPT-2 XL (2019)", 48, 1600, 25)};
}

}  // namespace pipewright
