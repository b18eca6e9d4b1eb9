// An optimizer and its settings as a person chooses them, and the memory that
// it takes. The runtime has the optimizers themselves (runtime/optimizers).

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/plan/parameter_group.h"

namespace pipewright {

struct OptimizerChoice {
  std::string name = "sgd";  // sgd, adam, adamw
  double momentum = 0.9;     // sgd
  bool nesterov = false;     // sgd
  double beta1 = 0.9;        // adam, adamw
  double beta2 = 0.999;
  double epsilon = 1e-8;
  std::optional<double> weight_decay;  // 0.01 for adamw, else 0
  std::vector<ParameterGroup> groups;  // what differs for some parameters
  bool masters = true;                 // float32 ones of weights of two bytes

  bool operator==(const OptimizerChoice&) const = default;
};

// By one word: "sgd" (without momentum), "momentum", "adam" or "adamw". Fails
// with BadConfiguration.
Result<OptimizerChoice> optimizer_named(const std::string& name);

// "sgd momentum=0.9", as a checkpoint remembers it.
std::string to_text(const OptimizerChoice& choice);

double weight_decay(const OptimizerChoice& choice);

// The learning rate where a person gives none.
double usual_rate(const OptimizerChoice& choice);

// The choice for the parameters of a group.
OptimizerChoice choice_of(const ParameterGroup& group,
                          const OptimizerChoice& choice);

// What a step takes beside weights and gradients, in tensors of a parameter's
// size.
struct OptimizerMemory {
  int words = 0;        // state: kept from step to step
  int temporaries = 0;  // at once, while a parameter is updated
  bool operator==(const OptimizerMemory&) const = default;
};

// Fails with BadConfiguration: unknown name, a figure out of range, Nesterov
// without momentum, a group that check_group() refuses.
Result<OptimizerMemory> memory_of(const OptimizerChoice& choice);

// Weights of two bytes (bfloat16, float16) have a float32 master and float32
// state beside them, and their gradient becomes float32: two words each.
// Without masters they become float32 for the time of a step.
constexpr bool has_masters(std::string_view number_type) {
  return number_type == "bfloat16" || number_type == "float16";
}
constexpr OptimizerMemory with_masters(const OptimizerMemory& memory) {
  return {2 * (memory.words + 1), 2 * (memory.temporaries + 1)};
}
constexpr OptimizerMemory without_masters(const OptimizerMemory& memory) {
  return {2 * memory.words, 2 * (memory.temporaries + 2)};
}

}  // namespace pipewright
