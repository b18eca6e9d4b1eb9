#include "pipewright/runtime/training/group_settings.h"

namespace pipewright {

Result<std::map<ParameterId, StepSettings>> group_settings(
    const Model& model, const TrainRequest& request, std::int64_t total) {
  const auto& groups = request.optimizer.groups;
  PIPEWRIGHT_TRY(const std::vector<int> group_of, groups_of(groups, model));
  std::vector<StepSettings> settings;
  for (const ParameterGroup& group : groups) {
    PIPEWRIGHT_TRY(auto optimizer,
                   make_optimizer(choice_of(group, request.optimizer)));
    LearningRate rate = request.rate;
    rate.rate = group.rate.value_or(rate.rate);
    settings.push_back({std::move(optimizer), [rate, total](std::int64_t step) {
                          return rate.at(step, total);
                        }});
  }
  std::map<ParameterId, StepSettings> result;
  for (std::size_t i = 0; i < group_of.size(); ++i)
    if (group_of[i] >= 0)
      result[ParameterId(i)] = settings[static_cast<std::size_t>(group_of[i])];
  return result;
}

}  // namespace pipewright
