// BERT with its pooler. Devlin et al., "BERT: Pre-training of Deep
// Bidirectional Transformers for Language Understanding", NAACL 2019.
//
// Without labels the loss is the squared distance of the pooled features from a
// target, which adds no parameters to the published ones; labels=N adds a
// classifier of N labels after the pooler.

#include "pipewright/model/zoo/blocks.h"
#include "pipewright/model/zoo/families.h"

namespace pipewright {
namespace {

constexpr double kEpsilon = 1e-12;

Source draw_bert_block(Sketch& sketch, const std::string& prefix, Source x,
                       const TransformerSizes& sizes) {
  Source y = self_attention(sketch, prefix, x, sizes, /*causal=*/false);
  x = sketch.layer_norm(prefix + "norm1", sketch.sum(prefix + "add1", x, y),
                        kEpsilon);
  y = feed_forward(sketch, prefix, x, sizes, LayerKind::Gelu);
  return sketch.layer_norm(prefix + "norm2", sketch.sum(prefix + "add2", x, y),
                           kEpsilon);
}

Source bert_embedding(Sketch& sketch, const Attributes& settings,
                      const TransformerSizes& sizes) {
  const Source tokens = sketch.tokens("tokens", {sizes.seq});
  const Source segments = sketch.tokens("segments", {sizes.seq});
  Source x = sketch.add("embedding", LayerKind::Embedding, {tokens},
                        {{"entries", sizes.vocab}, {"features", sizes.hidden}});
  x = sketch.add("positions", LayerKind::Positional, {x},
                 {{"positions", integer(settings, "positions")}});
  Source segment =
      sketch.add("segment_embedding", LayerKind::Embedding, {segments},
                 {{"entries", std::int64_t{2}}, {"features", sizes.hidden}});
  x = sketch.sum("embedding_add", x, segment);
  x = sketch.layer_norm("embedding_norm", x, kEpsilon);
  return sketch.dropout("embedding_dropout", x, sizes.dropout);
}

void draw_bert(Sketch& sketch, const Attributes& settings) {
  const TransformerSizes sizes = transformer_sizes(settings);
  Source x = bert_embedding(sketch, settings, sizes);
  for (std::int64_t i = 0; i < sizes.layers; ++i)
    x = draw_bert_block(sketch, "block" + std::to_string(i) + ".", x, sizes);
  x = sketch.add("first", LayerKind::Select, {x});
  x = sketch.linear("pooler", x, sizes.hidden);
  x = sketch.add("pooler_tanh", LayerKind::Tanh, {x});
  const std::int64_t labels = integer(settings, "labels");
  if (labels == 0) {
    Source target = sketch.input("target", {sizes.hidden});
    sketch.add("loss", LayerKind::Mse, {x, target});
    return;
  }
  x = sketch.dropout("classifier_dropout", x, sizes.dropout);
  sketch.cross_entropy(sketch.linear("classifier", x, labels));
}

ZooEntry bert_entry(const std::string& name, const std::string& meaning,
                    std::int64_t layers, std::int64_t hidden,
                    std::int64_t heads) {
  ZooEntry entry{name, meaning,
                 transformer_settings({layers, hidden, heads, 30522, 512, 0.1}),
                 draw_bert};
  entry.settings.push_back(count_setting("positions", 512));
  entry.settings.push_back({.name = "labels",
                            .fallback = std::int64_t{0},
                            .min = 0,
                            .max = 1 << 24});
  return entry;
}

}  // namespace

std::vector<ZooEntry> bert_family() {
  return {
      bert_entry("bert", "BERT of any depth, with pooler", 12, 768, 12),
      bert_entry("bert-base", "BERT base (2019), with pooler", 12, 768, 12),
      bert_entry("bert-large", "BERT large (2019), with pooler", 24, 1024, 16)};
}

}  // namespace pipewright
