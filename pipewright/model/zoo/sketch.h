// Draws a zoo model: one short call per layer, without checks in between. After
// the first error later calls do nothing, and build() returns it.
//
//   x = sketch.relu("relu1", sketch.conv("conv1", x, 64, square(3)));

#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pipewright/model/builder.h"

namespace pipewright {

// The window of a convolution or pool: each pair is {height, width}.
struct Slide {
  Shape kernel;
  Shape stride = {1, 1};
  Shape padding = {0, 0};
};
Slide square(std::int64_t kernel, std::int64_t stride = 1,
             std::int64_t padding = 0);

class Sketch {
 public:
  Sketch(std::string name, NumberType type);

  Source input(const std::string& name, Shape shape);   // floating numbers
  Source tokens(const std::string& name, Shape shape);  // int64

  Source add(const std::string& name, LayerKind kind,
             std::vector<Source> inputs, Attributes attributes = {},
             std::map<std::string, std::string> shares = {});

  Source conv(const std::string& name, Source x, std::int64_t channels,
              const Slide& slide, bool bias = true);
  Source max_pool(const std::string& name, Source x, const Slide& slide,
                  bool ceil = false);
  Source linear(const std::string& name, Source x, std::int64_t features,
                bool bias = true);
  Source relu(const std::string& name, Source x);
  Source sum(const std::string& name, Source a, Source b);
  Source layer_norm(const std::string& name, Source x, double epsilon = 1e-5);
  // Adds no layer if the rate is 0.
  Source dropout(const std::string& name, Source x, double rate);
  // Pools to 1x1 and flattens.
  Source pool_to_features(Source x);
  // The last dimension of the logits is the classes. Adds the model input
  // "target" with one class index for each entry of the other dimensions.
  void cross_entropy(Source logits);
  // The same of a product by a table of classes, as one layer.
  void linear_cross_entropy(Source x, std::int64_t classes,
                            std::map<std::string, std::string> shares);

  const Shape& shape(Source source) const { return builder_.shape(source); }

  Result<Model> build() &&;

 private:
  Source keep(Result<Source> added);
  Source targets_of(Source rows);  // the model input

  ModelBuilder builder_;
  std::optional<Error> error_;
};

// Settings that several families share.
SettingRule count_setting(const std::string& name, std::int64_t fallback,
                          std::int64_t max = 1 << 20);
SettingRule dropout_setting(double fallback);
std::vector<SettingRule> image_settings(std::int64_t side,
                                        std::int64_t classes = 1000,
                                        std::int64_t channels = 3);
// The model input "image" of image_settings().
Source image_input(Sketch& sketch, const Attributes& settings);

}  // namespace pipewright
