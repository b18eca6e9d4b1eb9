// The encoder-decoder transformer, base and big. Vaswani et al., "Attention Is
// All You Need", NeurIPS 2017: post-norm, sines and cosines as positions, one
// table for both embeddings and the output, unless they are untied.

#include <cmath>

#include "pipewright/model/zoo/blocks.h"
#include "pipewright/model/zoo/families.h"

namespace pipewright {
namespace {

const char kTable[] = "encoder.embedding.weight";

Source transformer_embedding(Sketch& sketch, const std::string& prefix,
                             Source tokens, const TransformerSizes& sizes,
                             bool shares) {
  std::map<std::string, std::string> shared;
  if (shares) shared = {{"weight", kTable}};
  Source x =
      sketch.add(prefix + "embedding", LayerKind::Embedding, {tokens},
                 {{"entries", sizes.vocab},
                  {"features", sizes.hidden},
                  {"scale", std::sqrt(static_cast<double>(sizes.hidden))}},
                 shared);
  x = sketch.add(prefix + "positions", LayerKind::Positional, {x},
                 {{"positions", sizes.seq}, {"learned", false}});
  return sketch.dropout(prefix + "dropout", x, sizes.dropout);
}

// x + y, normalised.
Source joined(Sketch& sketch, const std::string& prefix, int number, Source x,
              Source y) {
  const std::string digit = std::to_string(number);
  return sketch.layer_norm(prefix + "norm" + digit,
                           sketch.sum(prefix + "add" + digit, x, y));
}

Source cross_attention(Sketch& sketch, const std::string& prefix, Source x,
                       Source memory, const TransformerSizes& sizes) {
  Source query = sketch.linear(prefix + "cross_query", x, sizes.hidden);
  Source key_value =
      sketch.linear(prefix + "cross_key_value", memory, 2 * sizes.hidden);
  x = sketch.add(prefix + "cross_attention", LayerKind::Attention,
                 {query, key_value},
                 {{"heads", sizes.heads},
                  {"flash", sizes.flash},
                  {"dropout", sizes.dropout}});
  x = sketch.linear(prefix + "cross_projection", x, sizes.hidden);
  return sketch.dropout(prefix + "cross_dropout", x, sizes.dropout);
}

Source encoder_block(Sketch& sketch, const std::string& prefix, Source x,
                     const TransformerSizes& sizes) {
  x = joined(sketch, prefix, 1, x,
             self_attention(sketch, prefix, x, sizes, /*causal=*/false));
  return joined(sketch, prefix, 2, x,
                feed_forward(sketch, prefix, x, sizes, LayerKind::Relu));
}

Source decoder_block(Sketch& sketch, const std::string& prefix, Source x,
                     Source memory, const TransformerSizes& sizes) {
  x = joined(sketch, prefix, 1, x,
             self_attention(sketch, prefix, x, sizes, /*causal=*/true));
  x = joined(sketch, prefix, 2, x,
             cross_attention(sketch, prefix, x, memory, sizes));
  return joined(sketch, prefix, 3, x,
                feed_forward(sketch, prefix, x, sizes, LayerKind::Relu));
}

void draw_transformer(Sketch& sketch, const Attributes& settings) {
  const TransformerSizes sizes = transformer_sizes(settings);
  const Source source = sketch.tokens("source", {sizes.seq});
  const Source tokens = sketch.tokens("tokens", {sizes.seq});
  Source memory = transformer_embedding(sketch, "encoder.", source, sizes,
                                        /*shares=*/false);
  for (std::int64_t i = 0; i < sizes.layers; ++i)
    memory = encoder_block(sketch, "encoder.block" + std::to_string(i) + ".",
                           memory, sizes);
  const bool tied = flag(settings, "tied");
  Source x = transformer_embedding(sketch, "decoder.", tokens, sizes, tied);
  for (std::int64_t i = 0; i < sizes.layers; ++i)
    x = decoder_block(sketch, "decoder.block" + std::to_string(i) + ".", x,
                      memory, sizes);
  std::map<std::string, std::string> shared;
  if (tied) shared = {{"weight", kTable}};
  sketch.cross_entropy(
      sketch.add("head", LayerKind::Linear, {x},
                 {{"out_features", sizes.vocab}, {"bias", false}}, shared));
}

ZooEntry transformer_entry(const std::string& name, const std::string& meaning,
                           const TransformerSizes& sizes) {
  ZooEntry entry{name, meaning, transformer_settings(sizes), draw_transformer};
  entry.settings.push_back(
      {.name = "tied", .type = SettingType::Flag, .fallback = true});
  return entry;
}

}  // namespace

std::vector<ZooEntry> transformer_family() {
  return {transformer_entry("transformer", "encoder-decoder, base (2017)",
                            {6, 512, 8, 37000, 128, 0.1}),
          transformer_entry("transformer-big", "encoder-decoder, big (2017)",
                            {6, 1024, 16, 37000, 128, 0.3})};
}

}  // namespace pipewright
