#include "pipewright/model/zoo/sketch.h"

namespace pipewright {

Slide square(std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
  return {{kernel, kernel}, {stride, stride}, {padding, padding}};
}

Sketch::Sketch(std::string name, NumberType type)
    : builder_(std::move(name), type) {}

// After an error, returns the first model input: a source that exists.
Source Sketch::keep(Result<Source> added) {
  if (added) return *added;
  if (!error_) error_ = added.error();
  return Source{LayerId(), 0};
}

Source Sketch::input(const std::string& name, Shape shape) {
  return keep(builder_.add_input({name, std::move(shape), builder_.type()}));
}

Source Sketch::tokens(const std::string& name, Shape shape) {
  return keep(builder_.add_input({name, std::move(shape), NumberType::Int64}));
}

Source Sketch::add(const std::string& name, LayerKind kind,
                   std::vector<Source> inputs, Attributes attributes,
                   std::map<std::string, std::string> shares) {
  if (error_) return Source{LayerId(), 0};
  return keep(builder_.add_layer({name, kind, std::move(inputs),
                                  std::move(attributes), std::move(shares)}));
}

Source Sketch::conv(const std::string& name, Source x, std::int64_t channels,
                    const Slide& slide, bool bias) {
  return add(name, LayerKind::Conv2d, {x},
             {{"out_channels", channels},
              {"kernel", slide.kernel},
              {"stride", slide.stride},
              {"padding", slide.padding},
              {"bias", bias}});
}

Source Sketch::max_pool(const std::string& name, Source x, const Slide& slide,
                        bool ceil) {
  return add(name, LayerKind::MaxPool, {x},
             {{"kernel", slide.kernel},
              {"stride", slide.stride},
              {"padding", slide.padding},
              {"ceil", ceil}});
}

Source Sketch::linear(const std::string& name, Source x, std::int64_t features,
                      bool bias) {
  return add(name, LayerKind::Linear, {x},
             {{"out_features", features}, {"bias", bias}});
}

Source Sketch::relu(const std::string& name, Source x) {
  return add(name, LayerKind::Relu, {x});
}

Source Sketch::sum(const std::string& name, Source a, Source b) {
  return add(name, LayerKind::Add, {a, b});
}

Source Sketch::layer_norm(const std::string& name, Source x, double epsilon) {
  return add(name, LayerKind::LayerNorm, {x}, {{"epsilon", epsilon}});
}

Source Sketch::dropout(const std::string& name, Source x, double rate) {
  if (rate == 0) return x;
  return add(name, LayerKind::Dropout, {x}, {{"rate", rate}});
}

Source Sketch::pool_to_features(Source x) {
  x = add("pool", LayerKind::AdaptiveAvgPool, {x});
  return add("flatten", LayerKind::Flatten, {x});
}

void Sketch::cross_entropy(Source logits) {
  if (error_) return;
  add("loss", LayerKind::CrossEntropy, {logits, targets_of(logits)});
}

void Sketch::linear_cross_entropy(Source x, std::int64_t classes,
                                  std::map<std::string, std::string> shares) {
  if (error_) return;
  add("loss", LayerKind::LinearCrossEntropy, {x, targets_of(x)},
      {{"classes", classes}}, std::move(shares));
}

Source Sketch::targets_of(Source rows) {
  Shape target = shape(rows);
  target.pop_back();
  return tokens("target", std::move(target));
}

Result<Model> Sketch::build() && {
  if (error_) return *error_;
  return std::move(builder_).build();
}

SettingRule count_setting(const std::string& name, std::int64_t fallback,
                          std::int64_t max) {
  return {.name = name,
          .fallback = fallback,
          .min = 1,
          .max = static_cast<double>(max)};
}

SettingRule dropout_setting(double fallback) {
  return {.name = "dropout",
          .type = SettingType::Real,
          .fallback = fallback,
          .min = 0,
          .max = 0.999999};
}

std::vector<SettingRule> image_settings(std::int64_t side, std::int64_t classes,
                                        std::int64_t channels) {
  return {count_setting("image", side, 1 << 16),
          count_setting("channels", channels, 1 << 16),
          count_setting("classes", classes, 1 << 24)};
}

Source image_input(Sketch& sketch, const Attributes& settings) {
  const std::int64_t side = integer(settings, "image");
  return sketch.input("image", {integer(settings, "channels"), side, side});
}

}  // namespace pipewright
