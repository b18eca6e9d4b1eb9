#include "pipewright/plan/optimizer_choice.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "pipewright/base/text.h"

namespace pipewright {
namespace {

Result<void> check(const std::string& name, double value, double end) {
  if (std::isfinite(value) && value >= 0 && value < end) return {};
  return bad_configuration(name + " is " + to_text(value),
                           "it is at least 0 and below " + to_text(end));
}

Result<void> check_figures(const OptimizerChoice& choice) {
  const struct {
    const char* name;
    double value, end;
  } ranges[] = {{"momentum", choice.momentum, 1},
                {"beta1", choice.beta1, 1},
                {"beta2", choice.beta2, 1},
                {"epsilon", choice.epsilon, 1e6},
                {"weight decay", weight_decay(choice), 1e6}};
  for (const auto& range : ranges)
    if (auto fine = check(range.name, range.value, range.end); !fine)
      return fine.error();
  for (const ParameterGroup& group : choice.groups)
    if (auto fine = check_group(group); !fine) return fine.error();
  return {};
}

bool any_decays(const OptimizerChoice& choice) {
  return weight_decay(choice) != 0 ||
         std::any_of(choice.groups.begin(), choice.groups.end(),
                     [](const ParameterGroup& group) {
                       return group.weight_decay.value_or(0) != 0;
                     });
}

}  // namespace

Result<OptimizerChoice> optimizer_named(const std::string& name) {
  const std::vector<std::string> names = {"sgd", "momentum", "adam", "adamw"};
  if (std::find(names.begin(), names.end(), name) == names.end())
    return bad_configuration("unknown optimizer \"" + name + "\"",
                             suggestion(name, names));
  OptimizerChoice choice;
  if (name == "sgd") choice.momentum = 0;
  if (name != "momentum") choice.name = name;
  return choice;
}

double weight_decay(const OptimizerChoice& choice) {
  return choice.weight_decay.value_or(choice.name == "adamw" ? 0.01 : 0);
}

// Adam's steps are about as long as their rate, whatever the gradients.
double usual_rate(const OptimizerChoice& choice) {
  return choice.name == "sgd" ? 0.05 : 0.001;
}

std::string to_text(const OptimizerChoice& choice) {
  std::string text = choice.name;
  if (choice.name == "sgd")
    text += " momentum=" + exact_text(choice.momentum) +
            (choice.nesterov ? " nesterov" : "");
  else
    text += " beta1=" + exact_text(choice.beta1) +
            " beta2=" + exact_text(choice.beta2) +
            " epsilon=" + exact_text(choice.epsilon);
  text += " weight-decay=" + exact_text(weight_decay(choice));
  if (!choice.masters) text += " no-masters";
  for (const ParameterGroup& group : choice.groups)
    text += " group=" + to_text(group);
  return text;
}

OptimizerChoice choice_of(const ParameterGroup& group,
                          const OptimizerChoice& choice) {
  OptimizerChoice result = choice;
  result.groups.clear();
  if (group.weight_decay) result.weight_decay = group.weight_decay;
  return result;
}

Result<OptimizerMemory> memory_of(const OptimizerChoice& choice) {
  if (auto fine = check_figures(choice); !fine) return fine.error();
  const bool decays = any_decays(choice);
  if (choice.name == "sgd") {
    if (choice.nesterov && choice.momentum == 0)
      return bad_configuration("Nesterov's look-ahead needs momentum",
                               "as --momentum 0.9");
    // The velocity; the gradient with decay, and the look-ahead.
    return OptimizerMemory{choice.momentum != 0, decays + choice.nesterov};
  }
  // Both moments; the divisor, and the gradient with decay.
  if (choice.name == "adam") return OptimizerMemory{2, 1 + decays};
  if (choice.name == "adamw") return OptimizerMemory{2, 1};
  const std::vector<std::string> known = {"sgd", "momentum", "adam", "adamw"};
  return bad_configuration("unknown optimizer \"" + choice.name + "\"",
                           suggestion(choice.name, known));
}

}  // namespace pipewright
