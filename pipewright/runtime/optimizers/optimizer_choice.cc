#include "pipewright/runtime/optimizers/optimizer_choice.h"

#include <cmath>

#include "pipewright/base/text.h"
#include "pipewright/runtime/optimizers/optimizer.h"

namespace pipewright {
namespace {

double decay_of(const OptimizerChoice& choice) {
  return choice.weight_decay.value_or(choice.name == "adamw" ? 0.01 : 0);
}

Result<void> check(const std::string& name, double value, double end) {
  if (std::isfinite(value) && value >= 0 && value < end) return {};
  return bad_configuration(name + " is " + to_text(value),
                           "it is at least 0 and below " + to_text(end));
}

}  // namespace

std::string to_text(const OptimizerChoice& choice) {
  std::string text = choice.name;
  if (choice.name == "sgd")
    text += " momentum=" + exact_text(choice.momentum) +
            (choice.nesterov ? " nesterov" : "");
  else
    text += " beta1=" + exact_text(choice.beta1) +
            " beta2=" + exact_text(choice.beta2) +
            " epsilon=" + exact_text(choice.epsilon);
  return text + " weight-decay=" + exact_text(decay_of(choice));
}

Result<std::shared_ptr<const Optimizer>> make_optimizer(
    const OptimizerChoice& choice) {
  const struct {
    const char* name;
    double value, end;
  } ranges[] = {{"momentum", choice.momentum, 1},
                {"beta1", choice.beta1, 1},
                {"beta2", choice.beta2, 1},
                {"epsilon", choice.epsilon, 1e6},
                {"weight decay", decay_of(choice), 1e6}};
  for (const auto& range : ranges)
    if (auto fine = check(range.name, range.value, range.end); !fine)
      return fine.error();
  if (choice.name == "sgd") {
    if (choice.nesterov && choice.momentum == 0)
      return bad_configuration("Nesterov's look-ahead needs momentum",
                               "as --momentum 0.9");
    return sgd({choice.momentum, decay_of(choice), choice.nesterov});
  }
  if (choice.name == "adam" || choice.name == "adamw")
    return adam({choice.beta1, choice.beta2, choice.epsilon, decay_of(choice),
                 choice.name == "adamw"});
  const std::vector<std::string> known = {"sgd", "adam", "adamw"};
  return bad_configuration("unknown optimizer \"" + choice.name + "\"",
                           suggestion(choice.name, known));
}

Result<int> words_of(const OptimizerChoice& choice) {
  PIPEWRIGHT_TRY(const auto optimizer, make_optimizer(choice));
  return optimizer->words();
}

}  // namespace pipewright
