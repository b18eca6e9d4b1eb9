#include "pipewright/runtime/optimizers/optimizer.h"

namespace pipewright {

Result<std::shared_ptr<const Optimizer>> make_optimizer(
    const OptimizerChoice& choice) {
  if (const auto checked = memory_of(choice); !checked) return checked.error();
  const double decay = weight_decay(choice);
  if (choice.name == "sgd")
    return sgd({choice.momentum, decay, choice.nesterov});
  return adam({choice.beta1, choice.beta2, choice.epsilon, decay,
               choice.name == "adamw"});
}

}  // namespace pipewright
