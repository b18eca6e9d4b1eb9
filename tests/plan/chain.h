// Small made-up models and plans over them, for tests of plan/.

#pragma once

#include <random>
#include <string>
#include <vector>

#include "pipewright/plan/plan.h"
#include "pipewright/schedules/generator.h"

namespace pipewright {

// A chain's next layer: it reads the one before, keeps what it reads, and has
// one parameter.
inline ProfileLayer& add_layer(Profile& profile, Bytes weights) {
  const std::size_t l = profile.layers.size();
  ProfileLayer layer;
  layer.name = "layer" + std::to_string(l);
  layer.kind = "linear";
  if (l > 0) {
    layer.inputs = {LayerId(l - 1)};
    layer.keeps_input = {true};
  }
  layer.parameters = {ParameterId(l)};
  profile.model = "chain";
  profile.parameters.push_back({layer.name + ".weight", weights});
  profile.layers.push_back(layer);
  return profile.layers.back();
}

// Output 100 B a sample, 10 B of weights.
inline Profile chain(int num_layers) {
  Profile profile;
  for (int l = 0; l < num_layers; ++l) {
    add_layer(profile, Bytes(10));
    profile.sizes[1].push_back({Bytes(100), Bytes(0), Bytes(0)});
    profile.times["cpu"][1].push_back(
        {Seconds(1), Seconds(1), Seconds(1), Seconds(0)});
  }
  return profile;
}

// The chain with some layers also reading one far before them.
inline Profile chain_with_skips(int num_layers, std::mt19937& random) {
  Profile profile = chain(num_layers);
  for (int l = 2; l < num_layers; ++l) {
    if (random() % 3 != 0) continue;
    auto& layer = profile.layers[static_cast<std::size_t>(l)];
    const int from = static_cast<int>(random() % static_cast<unsigned>(l - 1));
    layer.inputs.push_back(LayerId(from));
    layer.keeps_input.push_back(random() % 2 == 0);
  }
  return profile;
}

// Who runs each stage by the schedule.
inline std::vector<std::vector<WorkerId>> workers_of(const Schedule& schedule) {
  std::vector<std::vector<WorkerId>> workers(
      static_cast<std::size_t>(schedule.num_stages()));
  const auto& sections = schedule.sections();
  for (std::size_t w = 0; w < sections.body.size(); ++w)
    for (const ComputeAction& action : sections.body[w]) {
      auto& list = workers[action.stage.index()];
      if (list.empty() || list.back() != WorkerId(w))
        list.push_back(WorkerId(w));
    }
  return workers;
}

// One layer a stage, workers as the schedule has them.
inline Plan plan_of_schedule(const Schedule& schedule, Method method,
                             Replication replication) {
  Plan plan;
  plan.model = "chain";
  plan.method = method;
  plan.microbatch = 6;
  plan.minibatch = 6 * schedule.num_microbatches();
  plan.replication = replication;
  const auto workers = workers_of(schedule);
  for (int s = 0; s < schedule.num_stages(); ++s) {
    Stage stage;
    stage.forward = stage.backward = {LayerId(s)};
    stage.workers = workers[static_cast<std::size_t>(s)];
    plan.stages.push_back(stage);
  }
  for (int w = 0; w < schedule.num_workers(); ++w)
    plan.devices.push_back(DeviceId(w));
  plan.schedule = schedule;
  return plan;
}

// Two layers per stage; backward cuts moved by one layer here and there.
inline void set_stages(Plan& plan, std::mt19937& random) {
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    plan.stages[s].forward = {LayerId(2 * s), LayerId(2 * s + 1)};
    plan.stages[s].backward = plan.stages[s].forward;
    plan.stages[s].recompute = random() % 4 == 0;
  }
  if (random() % 2) return;
  for (std::size_t s = 0; s + 1 < plan.stages.size(); ++s) {
    auto& here = plan.stages[s].backward;
    auto& next = plan.stages[s + 1].backward;
    if (random() % 3 == 0 && here.size() > 1) {
      next.insert(next.begin(), here.back());
      here.pop_back();
    } else if (random() % 3 == 0 && next.size() > 1) {
      here.push_back(next.front());
      next.erase(next.begin());
    }
  }
}

}  // namespace pipewright
