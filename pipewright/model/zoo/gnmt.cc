// GNMT: recurrent translation with attention. Wu et al., "Google's Neural
// Machine Translation System", 2016, in the arrangement that PipeDream's
// profile shows: a first bidirectional encoder layer, residuals from the third
// encoder and the third decoder layer on, attention from the first decoder
// layer fed to all later ones.
//
// Departure: the attention scores are scaled products of projected queries and
// keys instead of an additive score, `hidden` parameters fewer than there.

#include "pipewright/model/zoo/families.h"
#include "pipewright/model/zoo/sketch.h"

namespace pipewright {
namespace {

struct Sizes {
  std::int64_t layers, hidden, vocab, seq;
  double dropout;
};

Source lstm(Sketch& sketch, const std::string& prefix, Source x,
            const Sizes& sizes, bool bidirectional = false) {
  x = sketch.dropout(prefix + "dropout", x, sizes.dropout);
  return sketch.add(
      prefix + "lstm", LayerKind::Lstm, {x},
      {{"hidden", sizes.hidden}, {"bidirectional", bidirectional}});
}

Source gnmt_embedding(Sketch& sketch, const std::string& prefix, Source tokens,
                      const Sizes& sizes) {
  return sketch.add(prefix + "embedding", LayerKind::Embedding, {tokens},
                    {{"entries", sizes.vocab}, {"features", sizes.hidden}});
}

std::string layer_prefix(const std::string& side, std::int64_t number) {
  return side + ".layer" + std::to_string(number) + ".";
}

Source draw_encoder(Sketch& sketch, Source x, const Sizes& sizes) {
  x = gnmt_embedding(sketch, "encoder.", x, sizes);
  for (std::int64_t i = 0; i < sizes.layers; ++i) {
    const std::string prefix = layer_prefix("encoder", i);
    const bool residual = i >= 2;
    Source y = lstm(sketch, prefix, x, sizes, /*bidirectional=*/i == 0);
    x = residual ? sketch.sum(prefix + "add", x, y) : y;
  }
  return x;
}

Source draw_attention(Sketch& sketch, Source x, Source memory) {
  const std::int64_t features = sketch.shape(x).back();
  Source query = sketch.linear("attention.query", x, features, false);
  Source key = sketch.linear("attention.key", memory, features, false);
  return sketch.add("attention.scores", LayerKind::Attention,
                    {query, key, memory}, {{"heads", std::int64_t{1}}});
}

Source draw_decoder(Sketch& sketch, Source x, Source memory,
                    const Sizes& sizes) {
  x = gnmt_embedding(sketch, "decoder.", x, sizes);
  x = lstm(sketch, layer_prefix("decoder", 0), x, sizes);
  const Source context = draw_attention(sketch, x, memory);
  for (std::int64_t i = 1; i < sizes.layers; ++i) {
    const std::string prefix = layer_prefix("decoder", i);
    const bool residual = i >= 2;
    Source y = sketch.add(prefix + "concat", LayerKind::Concat, {x, context},
                          {{"axis", std::int64_t{1}}});
    y = lstm(sketch, prefix, y, sizes);
    x = residual ? sketch.sum(prefix + "add", x, y) : y;
  }
  return x;
}

void draw_gnmt(Sketch& sketch, const Attributes& settings) {
  const Sizes sizes{integer(settings, "layers"), integer(settings, "hidden"),
                    integer(settings, "vocab"), integer(settings, "seq"),
                    real(settings, "dropout")};
  const Source source = sketch.tokens("source", {sizes.seq});
  const Source tokens = sketch.tokens("tokens", {sizes.seq});
  const Source memory = draw_encoder(sketch, source, sizes);
  const Source x = draw_decoder(sketch, tokens, memory, sizes);
  sketch.cross_entropy(sketch.linear("classifier", x, sizes.vocab));
}

}  // namespace

std::vector<ZooEntry> gnmt_family() {
  SettingRule layers = count_setting("layers", 4, 5000);
  layers.min = 2;
  return {{"gnmt",
           "GNMT (2016), encoder and decoder",
           {layers, count_setting("hidden", 1024),
            count_setting("vocab", 32320, 1 << 28), count_setting("seq", 50),
            dropout_setting(0.2)},
           draw_gnmt}};
}

}  // namespace pipewright
