// VGG, configurations A, B, D and E. Simonyan and Zisserman, "Very Deep
// Convolutional Networks for Large-Scale Image Recognition", ICLR 2015.

#include <array>

#include "pipewright/model/zoo/families.h"
#include "pipewright/model/zoo/sketch.h"

namespace pipewright {
namespace {

using ConvsPerStep = std::array<int, 5>;

Source conv_step(Sketch& sketch, int step, int convs, Source x,
                 bool batch_norm) {
  constexpr std::array<std::int64_t, 5> kChannels = {64, 128, 256, 512, 512};
  for (int i = 1; i <= convs; ++i) {
    const std::string number =
        std::to_string(step + 1) + "_" + std::to_string(i);
    x = sketch.conv("conv" + number, x, kChannels[step], square(3, 1, 1));
    if (batch_norm) x = sketch.add("norm" + number, LayerKind::BatchNorm, {x});
    x = sketch.relu("relu" + number, x);
  }
  return sketch.max_pool("pool" + std::to_string(step + 1), x, square(2, 2));
}

void draw_vgg(Sketch& sketch, const Attributes& settings,
              const ConvsPerStep& convs) {
  Source x = image_input(sketch, settings);
  for (int step = 0; step < 5; ++step)
    x = conv_step(sketch, step, convs[step], x, flag(settings, "batch_norm"));
  x = sketch.add("pool6", LayerKind::AdaptiveAvgPool, {x},
                 {{"size", Shape{7, 7}}});
  x = sketch.add("flatten", LayerKind::Flatten, {x});
  for (const char* number : {"6", "7"}) {
    x = sketch.linear(std::string("fc") + number, x, 4096);
    x = sketch.relu(std::string("relu") + number, x);
    x = sketch.dropout(std::string("dropout") + number, x,
                       real(settings, "dropout"));
  }
  sketch.cross_entropy(sketch.linear("fc8", x, integer(settings, "classes")));
}

template <int A, int B, int C, int D, int E>
ZooEntry vgg_entry(const std::string& name, const std::string& letter) {
  std::vector<SettingRule> settings = image_settings(224);
  settings.push_back(dropout_setting(0.5));
  settings.push_back(
      {.name = "batch_norm", .type = SettingType::Flag, .fallback = false});
  return {name, "VGG (2015), configuration " + letter, std::move(settings),
          [](Sketch& sketch, const Attributes& given) {
            draw_vgg(sketch, given, {A, B, C, D, E});
          }};
}

}  // namespace

std::vector<ZooEntry> vgg_family() {
  return {vgg_entry<1, 1, 2, 2, 2>("vgg11", "A"),
          vgg_entry<2, 2, 2, 2, 2>("vgg13", "B"),
          vgg_entry<2, 2, 3, 3, 3>("vgg16", "D"),
          vgg_entry<2, 2, 4, 4, 4>("vgg19", "E")};
}

}  // namespace pipewright
