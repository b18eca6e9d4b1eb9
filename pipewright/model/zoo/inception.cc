// Inception v3 without its auxiliary head. Szegedy et al., "Rethinking the
// Inception Architecture for Computer Vision", CVPR 2016, as torchvision has
// it.

#include "pipewright/model/zoo/families.h"
#include "pipewright/model/zoo/sketch.h"

namespace pipewright {
namespace {

// Convolution, batch norm, relu.
Source unit(Sketch& sketch, const std::string& name, Source x,
            std::int64_t channels, const Slide& slide) {
  x = sketch.conv(name, x, channels, slide, /*bias=*/false);
  x = sketch.add(name + "_norm", LayerKind::BatchNorm, {x},
                 {{"epsilon", 0.001}});
  return sketch.relu(name + "_relu", x);
}

const Slide kWide = {{1, 7}, {1, 1}, {0, 3}};
const Slide kTall = {{7, 1}, {1, 1}, {3, 0}};

Source concatenated(Sketch& sketch, const std::string& name,
                    std::vector<Source> x) {
  return sketch.add(name + ".concat", LayerKind::Concat, std::move(x));
}

Source pool_branch(Sketch& sketch, const std::string& name, Source x,
                   std::int64_t channels) {
  x = sketch.add(name + ".pool", LayerKind::AvgPool, {x},
                 {{"kernel", Shape{3, 3}},
                  {"stride", Shape{1, 1}},
                  {"padding", Shape{1, 1}}});
  return unit(sketch, name + ".pool_1x1", x, channels, square(1));
}

Source block_a(Sketch& sketch, const std::string& name, Source x,
               std::int64_t pool_channels) {
  Source one = unit(sketch, name + ".1x1", x, 64, square(1));
  Source five = unit(sketch, name + ".5x5_1", x, 48, square(1));
  five = unit(sketch, name + ".5x5_2", five, 64, square(5, 1, 2));
  Source three = unit(sketch, name + ".3x3_1", x, 64, square(1));
  three = unit(sketch, name + ".3x3_2", three, 96, square(3, 1, 1));
  three = unit(sketch, name + ".3x3_3", three, 96, square(3, 1, 1));
  Source pool = pool_branch(sketch, name, x, pool_channels);
  return concatenated(sketch, name, {one, five, three, pool});
}

Source block_b(Sketch& sketch, const std::string& name, Source x) {
  Source three = unit(sketch, name + ".3x3", x, 384, square(3, 2));
  Source deep = unit(sketch, name + ".deep_1", x, 64, square(1));
  deep = unit(sketch, name + ".deep_2", deep, 96, square(3, 1, 1));
  deep = unit(sketch, name + ".deep_3", deep, 96, square(3, 2));
  Source pool = sketch.max_pool(name + ".pool", x, square(3, 2));
  return concatenated(sketch, name, {three, deep, pool});
}

Source block_c(Sketch& sketch, const std::string& name, Source x,
               std::int64_t width) {
  Source one = unit(sketch, name + ".1x1", x, 192, square(1));
  Source once = unit(sketch, name + ".7x7_1", x, width, square(1));
  once = unit(sketch, name + ".7x7_2", once, width, kWide);
  once = unit(sketch, name + ".7x7_3", once, 192, kTall);
  Source twice = unit(sketch, name + ".deep_1", x, width, square(1));
  twice = unit(sketch, name + ".deep_2", twice, width, kTall);
  twice = unit(sketch, name + ".deep_3", twice, width, kWide);
  twice = unit(sketch, name + ".deep_4", twice, width, kTall);
  twice = unit(sketch, name + ".deep_5", twice, 192, kWide);
  Source pool = pool_branch(sketch, name, x, 192);
  return concatenated(sketch, name, {one, once, twice, pool});
}

Source block_d(Sketch& sketch, const std::string& name, Source x) {
  Source three = unit(sketch, name + ".3x3_1", x, 192, square(1));
  three = unit(sketch, name + ".3x3_2", three, 320, square(3, 2));
  Source seven = unit(sketch, name + ".7x7_1", x, 192, square(1));
  seven = unit(sketch, name + ".7x7_2", seven, 192, kWide);
  seven = unit(sketch, name + ".7x7_3", seven, 192, kTall);
  seven = unit(sketch, name + ".7x7_4", seven, 192, square(3, 2));
  Source pool = sketch.max_pool(name + ".pool", x, square(3, 2));
  return concatenated(sketch, name, {three, seven, pool});
}

Source block_e(Sketch& sketch, const std::string& name, Source x) {
  const Slide wide = {{1, 3}, {1, 1}, {0, 1}};
  const Slide tall = {{3, 1}, {1, 1}, {1, 0}};
  Source one = unit(sketch, name + ".1x1", x, 320, square(1));
  Source three = unit(sketch, name + ".3x3_1", x, 384, square(1));
  Source three_wide = unit(sketch, name + ".3x3_wide", three, 384, wide);
  Source three_tall = unit(sketch, name + ".3x3_tall", three, 384, tall);
  Source deep = unit(sketch, name + ".deep_1", x, 448, square(1));
  deep = unit(sketch, name + ".deep_2", deep, 384, square(3, 1, 1));
  Source deep_wide = unit(sketch, name + ".deep_wide", deep, 384, wide);
  Source deep_tall = unit(sketch, name + ".deep_tall", deep, 384, tall);
  Source pool = pool_branch(sketch, name, x, 192);
  return concatenated(
      sketch, name, {one, three_wide, three_tall, deep_wide, deep_tall, pool});
}

void draw_inception(Sketch& sketch, const Attributes& settings) {
  Source x = image_input(sketch, settings);
  x = unit(sketch, "conv1", x, 32, square(3, 2));
  x = unit(sketch, "conv2", x, 32, square(3));
  x = unit(sketch, "conv3", x, 64, square(3, 1, 1));
  x = sketch.max_pool("pool1", x, square(3, 2));
  x = unit(sketch, "conv4", x, 80, square(1));
  x = unit(sketch, "conv5", x, 192, square(3));
  x = sketch.max_pool("pool2", x, square(3, 2));
  x = block_a(sketch, "mixed1", x, 32);
  x = block_a(sketch, "mixed2", x, 64);
  x = block_a(sketch, "mixed3", x, 64);
  x = block_b(sketch, "mixed4", x);
  x = block_c(sketch, "mixed5", x, 128);
  x = block_c(sketch, "mixed6", x, 160);
  x = block_c(sketch, "mixed7", x, 160);
  x = block_c(sketch, "mixed8", x, 192);
  x = block_d(sketch, "mixed9", x);
  x = block_e(sketch, "mixed10", x);
  x = block_e(sketch, "mixed11", x);
  x = sketch.add("pool", LayerKind::AdaptiveAvgPool, {x});
  x = sketch.dropout("dropout", x, real(settings, "dropout"));
  x = sketch.add("flatten", LayerKind::Flatten, {x});
  sketch.cross_entropy(sketch.linear("fc", x, integer(settings, "classes")));
}

}  // namespace

std::vector<ZooEntry> inception_family() {
  std::vector<SettingRule> settings = image_settings(299);
  settings.push_back(dropout_setting(0.5));
  return {{"inception_v3", "Inception v3 (2016), no auxiliary head", settings,
           draw_inception}};
}

}  // namespace pipewright
