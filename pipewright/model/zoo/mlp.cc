// A perceptron of equal hidden layers: the smallest thing to cut and train.

#include "pipewright/model/zoo/families.h"
#include "pipewright/model/zoo/sketch.h"

namespace pipewright {
namespace {

void draw_mlp(Sketch& sketch, const Attributes& settings) {
  Source x = sketch.input("features", {integer(settings, "features")});
  for (std::int64_t i = 0; i < integer(settings, "layers"); ++i) {
    const std::string block = "hidden" + std::to_string(i);
    x = sketch.linear(block + ".linear", x, integer(settings, "hidden"));
    x = sketch.relu(block + ".relu", x);
  }
  sketch.cross_entropy(
      sketch.linear("output", x, integer(settings, "classes")));
}

}  // namespace

std::vector<ZooEntry> mlp_family() {
  return {{"mlp",
           "perceptron with relu",
           {count_setting("layers", 4, 10'000), count_setting("hidden", 256),
            count_setting("features", 784), count_setting("classes", 10)},
           draw_mlp}};
}

}  // namespace pipewright
