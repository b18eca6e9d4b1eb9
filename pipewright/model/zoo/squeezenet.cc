// SqueezeNet 1.0. Iandola et al., "SqueezeNet: AlexNet-level accuracy with 50x
// fewer parameters", 2016, table 1, as torchvision has it.

#include "pipewright/model/zoo/families.h"
#include "pipewright/model/zoo/sketch.h"

namespace pipewright {
namespace {

Source conv_relu(Sketch& sketch, const std::string& name, Source x,
                 std::int64_t channels, const Slide& slide) {
  return sketch.relu(name + "_relu", sketch.conv(name, x, channels, slide));
}

Source fire(Sketch& sketch, int number, Source x, std::int64_t squeeze,
            std::int64_t expand) {
  const std::string name = "fire" + std::to_string(number);
  x = conv_relu(sketch, name + ".squeeze", x, squeeze, square(1));
  Source one = conv_relu(sketch, name + ".expand1", x, expand, square(1));
  Source three =
      conv_relu(sketch, name + ".expand3", x, expand, square(3, 1, 1));
  return sketch.add(name + ".concat", LayerKind::Concat, {one, three});
}

void draw_squeezenet(Sketch& sketch, const Attributes& settings) {
  Source x = image_input(sketch, settings);
  x = conv_relu(sketch, "conv1", x, 96, square(7, 2));
  x = sketch.max_pool("pool1", x, square(3, 2), /*ceil=*/true);
  x = fire(sketch, 2, x, 16, 64);
  x = fire(sketch, 3, x, 16, 64);
  x = fire(sketch, 4, x, 32, 128);
  x = sketch.max_pool("pool4", x, square(3, 2), /*ceil=*/true);
  x = fire(sketch, 5, x, 32, 128);
  x = fire(sketch, 6, x, 48, 192);
  x = fire(sketch, 7, x, 48, 192);
  x = fire(sketch, 8, x, 64, 256);
  x = sketch.max_pool("pool8", x, square(3, 2), /*ceil=*/true);
  x = fire(sketch, 9, x, 64, 256);
  x = sketch.dropout("dropout", x, real(settings, "dropout"));
  x = conv_relu(sketch, "conv10", x, integer(settings, "classes"), square(1));
  sketch.cross_entropy(sketch.pool_to_features(x));
}

ZooEntry squeezenet_entry(const std::string& name) {
  std::vector<SettingRule> settings = image_settings(224);
  settings.push_back(dropout_setting(0.5));
  return {name, "SqueezeNet 1.0 (2016)", std::move(settings), draw_squeezenet};
}

}  // namespace

std::vector<ZooEntry> squeezenet_family() {
  return {squeezenet_entry("squeezenet"), squeezenet_entry("squeezenet1_0")};
}

}  // namespace pipewright
