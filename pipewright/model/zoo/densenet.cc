// DenseNet-121. Huang, Liu, van der Maaten and Weinberger, "Densely Connected
// Convolutional Networks", CVPR 2017, table 1.
//
// Each layer's features are joined to all before it by one concat of two
// tensors, so that one tensor crosses a cut between layers.

#include "pipewright/model/zoo/families.h"
#include "pipewright/model/zoo/sketch.h"

namespace pipewright {
namespace {

constexpr std::int64_t kGrowth = 32;

Source norm_relu(Sketch& sketch, const std::string& name, Source x) {
  x = sketch.add(name, LayerKind::BatchNorm, {x});
  return sketch.relu(name + "_relu", x);
}

Source dense_layer(Sketch& sketch, const std::string& name, Source x) {
  Source y = norm_relu(sketch, name + ".norm1", x);
  y = sketch.conv(name + ".conv1", y, 4 * kGrowth, square(1), false);
  y = norm_relu(sketch, name + ".norm2", y);
  y = sketch.conv(name + ".conv2", y, kGrowth, square(3, 1, 1), false);
  return sketch.add(name + ".concat", LayerKind::Concat, {x, y});
}

Source transition(Sketch& sketch, const std::string& name, Source x,
                  std::int64_t channels) {
  x = norm_relu(sketch, name + ".norm", x);
  x = sketch.conv(name + ".conv", x, channels, square(1), false);
  return sketch.add(name + ".pool", LayerKind::AvgPool, {x},
                    {{"kernel", Shape{2, 2}}});
}

void draw_densenet(Sketch& sketch, const Attributes& settings) {
  Source x = image_input(sketch, settings);
  x = sketch.conv("conv0", x, 2 * kGrowth, square(7, 2, 3), false);
  x = sketch.max_pool("pool0", norm_relu(sketch, "norm0", x), square(3, 2, 1));
  std::int64_t channels = 2 * kGrowth;
  int block = 1;
  for (int layers : {6, 12, 24, 16}) {
    const std::string number = std::to_string(block);
    for (int i = 0; i < layers; ++i)
      x = dense_layer(sketch, "block" + number + ".layer" + std::to_string(i),
                      x);
    channels += layers * kGrowth;
    if (block++ < 4)
      x = transition(sketch, "transition" + number, x, channels /= 2);
  }
  x = sketch.pool_to_features(norm_relu(sketch, "norm5", x));
  sketch.cross_entropy(sketch.linear("fc", x, integer(settings, "classes")));
}

}  // namespace

std::vector<ZooEntry> densenet_family() {
  return {{"densenet121", "DenseNet-121 (2017)", image_settings(224),
           draw_densenet}};
}

}  // namespace pipewright
