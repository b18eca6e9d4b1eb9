// Pipewright with a layer of one's own: every command knows the kind "swish",
// x * sigmoid(b * x) with a b that is learned for each feature.

#include <torch/nn/module.h>

#include "cli/commands.h"
#include "pipewright/runtime/layers/module_kind.h"

struct Swish : torch::nn::Module {
  explicit Swish(std::int64_t features)
      : b(register_parameter("b", at::ones({features}))) {}
  at::Tensor forward(const at::Tensor& x) { return x * at::sigmoid(b * x); }
  at::Tensor b;
};

int main(int argc, char** argv) {
  using namespace pipewright;
  const auto added = add_module_kind(
      {.name = "swish",
       .make = [](const Attributes&, const std::vector<Shape>& inputs) {
         return wrapped(std::make_shared<Swish>(inputs[0].back()));
       }});
  return added ? cli::run(argc, argv) : 78;
}
