#include "pipewright/runtime/weights/step_rule.h"

#include <algorithm>
#include <cmath>

namespace pipewright {
namespace {

template <class T>
bool has(const std::vector<T>& list, const T& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

}  // namespace

StepRule step_rule(const Program& program, StageId owner,
                   ParameterId parameter) {
  const StageDelay& own = program.delays[owner.index()];
  StepRule rule{own.forward, own.averaging};
  for (const Reduction& reduction : program.reductions) {
    if (!has(reduction.stages, owner) || !has(reduction.parameters, parameter))
      continue;
    for (const StageId user : reduction.stages) {
      const StageDelay& delay = program.delays[user.index()];
      rule.delay = std::max(rule.delay, delay.forward);
      rule.averaging = std::max(rule.averaging, delay.averaging);
    }
  }
  return rule;
}

double velocity_decay(const TrainingSettings& settings, double averaging) {
  return std::pow(settings.correction_decay, 1 / averaging);
}

}  // namespace pipewright
