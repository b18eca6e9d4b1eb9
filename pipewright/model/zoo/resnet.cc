// ResNet. He, Zhang, Ren and Sun, "Deep Residual Learning for Image
// Recognition", CVPR 2016, table 1; the stride of a bottleneck is in its 3x3
// convolution, as torchvision has it.

#include <array>

#include "pipewright/model/zoo/families.h"
#include "pipewright/model/zoo/sketch.h"

namespace pipewright {
namespace {

struct Depth {
  std::array<int, 4> blocks;
  bool bottleneck;
};

Source conv_norm(Sketch& sketch, const std::string& name, Source x,
                 std::int64_t channels, const Slide& slide) {
  x = sketch.conv(name, x, channels, slide, /*bias=*/false);
  return sketch.add(name + "_norm", LayerKind::BatchNorm, {x});
}

struct ResidualBlock {
  std::string name;
  std::int64_t width;
  std::int64_t stride;
  bool bottleneck;
  bool projects;  // the shortcut changes shape
};

Source draw_resnet_block(Sketch& sketch, const ResidualBlock& block, Source x) {
  const std::string& name = block.name;
  const std::int64_t out = block.width * (block.bottleneck ? 4 : 1);
  const Slide three = square(3, block.stride, 1);
  Source y = x;
  if (block.bottleneck) {
    y = conv_norm(sketch, name + ".conv1", y, block.width, square(1));
    y = sketch.relu(name + ".relu1", y);
    y = conv_norm(sketch, name + ".conv2", y, block.width, three);
    y = sketch.relu(name + ".relu2", y);
    y = conv_norm(sketch, name + ".conv3", y, out, square(1));
  } else {
    y = conv_norm(sketch, name + ".conv1", y, block.width, three);
    y = sketch.relu(name + ".relu1", y);
    y = conv_norm(sketch, name + ".conv2", y, out, square(3, 1, 1));
  }
  if (block.projects)
    x = conv_norm(sketch, name + ".shortcut", x, out, square(1, block.stride));
  return sketch.relu(name + ".relu", sketch.sum(name + ".add", y, x));
}

void draw_resnet(Sketch& sketch, const Attributes& settings,
                 const Depth& depth) {
  Source x = image_input(sketch, settings);
  x = conv_norm(sketch, "conv1", x, 64, square(7, 2, 3));
  x = sketch.max_pool("pool1", sketch.relu("relu1", x), square(3, 2, 1));
  for (std::size_t step = 0; step < 4; ++step)
    for (int i = 0; i < depth.blocks[step]; ++i) {
      const std::int64_t width = std::int64_t{64} << step;
      const bool first = i == 0;
      x = draw_resnet_block(
          sketch,
          {.name =
               "step" + std::to_string(step + 1) + ".block" + std::to_string(i),
           .width = width,
           .stride = first && step > 0 ? 2 : 1,
           .bottleneck = depth.bottleneck,
           .projects = first && (step > 0 || depth.bottleneck)},
          x);
    }
  x = sketch.pool_to_features(x);
  sketch.cross_entropy(sketch.linear("fc", x, integer(settings, "classes")));
}

template <int A, int B, int C, int D, bool bottleneck>
ZooEntry resnet_entry(const std::string& layers) {
  return {"resnet" + layers, "ResNet-" + layers + " (2016)",
          image_settings(224), [](Sketch& sketch, const Attributes& settings) {
            draw_resnet(sketch, settings, {{A, B, C, D}, bottleneck});
          }};
}

}  // namespace

std::vector<ZooEntry> resnet_family() {
  return {resnet_entry<2, 2, 2, 2, false>("18"),
          resnet_entry<3, 4, 6, 3, false>("34"),
          resnet_entry<3, 4, 6, 3, true>("50"),
          resnet_entry<3, 4, 23, 3, true>("101"),
          resnet_entry<3, 8, 36, 3, true>("152")};
}

}  // namespace pipewright
