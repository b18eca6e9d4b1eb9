// AlexNet in the single-column shape of Krizhevsky, "One weird trick for
// parallelizing convolutional neural networks", 2014, as torchvision has it.

#include "pipewright/model/zoo/families.h"
#include "pipewright/model/zoo/sketch.h"

namespace pipewright {
namespace {

Source numbered_conv_relu(Sketch& sketch, int number, Source x,
                          std::int64_t channels, const Slide& slide) {
  const std::string digit = std::to_string(number);
  x = sketch.conv("conv" + digit, x, channels, slide);
  return sketch.relu("relu" + digit, x);
}

void draw_alexnet(Sketch& sketch, const Attributes& settings) {
  const double dropout = real(settings, "dropout");
  Source x = image_input(sketch, settings);
  x = numbered_conv_relu(sketch, 1, x, 64, square(11, 4, 2));
  x = sketch.max_pool("pool1", x, square(3, 2));
  x = numbered_conv_relu(sketch, 2, x, 192, square(5, 1, 2));
  x = sketch.max_pool("pool2", x, square(3, 2));
  x = numbered_conv_relu(sketch, 3, x, 384, square(3, 1, 1));
  x = numbered_conv_relu(sketch, 4, x, 256, square(3, 1, 1));
  x = numbered_conv_relu(sketch, 5, x, 256, square(3, 1, 1));
  x = sketch.max_pool("pool5", x, square(3, 2));
  x = sketch.add("pool6", LayerKind::AdaptiveAvgPool, {x},
                 {{"size", Shape{6, 6}}});
  x = sketch.add("flatten", LayerKind::Flatten, {x});
  x = sketch.dropout("dropout6", x, dropout);
  x = sketch.relu("relu6", sketch.linear("fc6", x, 4096));
  x = sketch.dropout("dropout7", x, dropout);
  x = sketch.relu("relu7", sketch.linear("fc7", x, 4096));
  sketch.cross_entropy(sketch.linear("fc8", x, integer(settings, "classes")));
}

}  // namespace

std::vector<ZooEntry> alexnet_family() {
  std::vector<SettingRule> settings = image_settings(224);
  settings.push_back(dropout_setting(0.5));
  return {{"alexnet", "AlexNet (2014, one column)", settings, draw_alexnet}};
}

}  // namespace pipewright
