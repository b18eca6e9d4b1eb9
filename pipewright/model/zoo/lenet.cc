// LeNet-5 with relu and max pooling, as commonly trained on 28x28 digits.
// LeCun et al., "Gradient-Based Learning Applied to Document Recognition",
// Proceedings of the IEEE, 1998; the original has scaled tanh and subsampling.

#include "pipewright/model/zoo/families.h"
#include "pipewright/model/zoo/sketch.h"

namespace pipewright {
namespace {

void draw_lenet(Sketch& sketch, const Attributes& settings) {
  Source x = image_input(sketch, settings);
  x = sketch.relu("relu1", sketch.conv("conv1", x, 6, square(5, 1, 2)));
  x = sketch.max_pool("pool1", x, square(2, 2));
  x = sketch.relu("relu2", sketch.conv("conv2", x, 16, square(5)));
  x = sketch.max_pool("pool2", x, square(2, 2));
  x = sketch.add("flatten", LayerKind::Flatten, {x});
  x = sketch.relu("relu3", sketch.linear("fc1", x, 120));
  x = sketch.relu("relu4", sketch.linear("fc2", x, 84));
  sketch.cross_entropy(sketch.linear("fc3", x, integer(settings, "classes")));
}

}  // namespace

std::vector<ZooEntry> lenet_family() {
  return {{"lenet", "LeNet-5 (1998), relu and max pooling",
           image_settings(28, 10, 1), draw_lenet}};
}

}  // namespace pipewright
