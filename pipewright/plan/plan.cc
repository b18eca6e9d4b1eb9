#include "pipewright/plan/plan.h"

#include <algorithm>

namespace pipewright {

bool has_recompute(const Plan& plan) {
  return std::any_of(plan.stages.begin(), plan.stages.end(),
                     [](const Stage& stage) { return stage.recompute; });
}

bool has_separate_cuts(const Plan& plan) {
  return std::any_of(
      plan.stages.begin(), plan.stages.end(),
      [](const Stage& stage) { return stage.forward != stage.backward; });
}

void name_device_kinds(Plan& plan, const Cluster& cluster) {
  plan.device_kinds.clear();
  for (const DeviceId device : plan.devices)
    plan.device_kinds.push_back(cluster.kind_of(device).name);
}

std::vector<Stage> stages_of_cuts(const std::vector<int>& cuts,
                                  int num_layers) {
  std::vector<Stage> stages;
  int begin = 0;
  for (std::size_t s = 0; s <= cuts.size(); ++s) {
    const int end = s < cuts.size() ? cuts[s] : num_layers;
    Stage stage;
    for (int layer = begin; layer < end; ++layer)
      stage.forward.push_back(LayerId(layer));
    stage.backward = stage.forward;
    stage.workers = {WorkerId(s)};
    stages.push_back(std::move(stage));
    begin = end;
  }
  return stages;
}

}  // namespace pipewright
