#include "cli/planning.h"

#include <algorithm>

#include "pipewright/base/text.h"
#include "pipewright/planners/bounds.h"

namespace pipewright::cli {
namespace {

Candidate candidate_of(const Planner& planner, const Problem& problem) {
  Candidate candidate;
  candidate.planner = planner.name();
  candidate.method = problem.method;
  const double start = now_seconds();
  Result<Planned> planned = planner.plan(problem);
  candidate.planning = Seconds(now_seconds() - start);
  if (!planned) {
    candidate.refusal = planned.error().to_text();
    return candidate;
  }
  candidate.planned = *std::move(planned);
  // One yardstick for all: a planner's own bound may hold for its kind of plan.
  candidate.planned->lower_bound = lower_bound(problem);
  return candidate;
}

Json names_of(const std::vector<LayerId>& layers, const Profile& profile) {
  Json names = Json::array();
  for (LayerId layer : layers) names.push(profile.layers[layer.index()].name);
  return names;
}

Json stage_json(const Stage& stage, const Planned& planned,
                const LoadedProblem& loaded) {
  Json devices = Json::array();
  Bytes memory;
  for (WorkerId worker : stage.workers) {
    const DeviceId device = planned.plan.devices[worker.index()];
    devices.push(loaded.cluster->devices()[device.index()].name);
    memory = std::max(memory, planned.estimate.memory[worker.index()]);
  }
  Json json = Json::object();
  json.set("layers", names_of(stage.forward, *loaded.profile));
  json.set("backward_layers", names_of(stage.backward, *loaded.profile));
  json.set("devices", std::move(devices));
  json.set("memory_bytes", memory.value());
  json.set("recompute", stage.recompute);
  return json;
}

Json strings(const std::vector<std::string>& texts) {
  Json json = Json::array();
  for (const std::string& text : texts) json.push(text);
  return json;
}

}  // namespace

Result<std::vector<Candidate>> candidates(const LoadedProblem& loaded,
                                          const std::string& planner,
                                          const std::vector<Method>& methods) {
  std::vector<const Planner*> chosen;
  if (planner.empty()) {
    for (const auto& each : planners()) chosen.push_back(each.get());
  } else {
    PIPEWRIGHT_TRY(const Planner* found, find_planner(planner));
    chosen.push_back(found);
  }
  Watch watch;
  Problem problem = loaded.problem;
  problem.estimate = watch.watched(loaded.problem.estimate);
  std::vector<Candidate> all;
  for (Method method : methods)
    for (const Planner* each : chosen) {
      watch.doing(each->name() + ", " + to_text(method));
      problem.method = method;
      all.push_back(candidate_of(*each, problem));
    }
  return all;
}

void rank(std::vector<Candidate>& candidates) {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) {
                     if (!a.planned || !b.planned)
                       return a.planned.has_value() && !b.planned.has_value();
                     return a.planned->estimate.step < b.planned->estimate.step;
                   });
}

Result<std::vector<Method>> parse_methods(
    const std::vector<std::string>& names) {
  std::vector<Method> methods;
  for (const std::string& name : names) {
    if (name == "all")
      return std::vector<Method>(kMethods.begin(), kMethods.end());
    const auto method = parse_method(name);
    if (!method) {
      std::vector<std::string> known = {"all"};
      for (Method each : kMethods) known.push_back(to_text(each));
      return bad_configuration("there is no method \"" + name + "\"",
                               suggestion(name, known));
    }
    methods.push_back(*method);
  }
  return methods;
}

Bytes largest_memory(const Planned& planned) {
  Bytes most;
  for (Bytes bytes : planned.estimate.memory) most = std::max(most, bytes);
  return most;
}

double gap(const Planned& planned) {
  return planned.lower_bound > Seconds(0)
             ? planned.estimate.step / planned.lower_bound - 1
             : 0;
}

std::string layers_text(const std::vector<LayerId>& layers,
                        const Profile& profile) {
  if (layers.empty()) return "none";
  std::string text = profile.layers[layers.front().index()].name;
  if (layers.size() > 1)
    text += " .. " + profile.layers[layers.back().index()].name;
  return text + " (" + std::to_string(layers.size()) + ")";
}

Json to_json(const Candidate& candidate, const LoadedProblem& loaded) {
  Json json = Json::object();
  json.set("planner", candidate.planner);
  json.set("method", to_text(candidate.method));
  json.set("planning_seconds", candidate.planning.value());
  if (!candidate.planned) return json.set("refused", candidate.refusal);
  const Planned& planned = *candidate.planned;
  const Plan& plan = planned.plan;
  const double step = planned.estimate.step.value();
  json.set("schedule", plan.schedule_name);
  json.set("microbatch", plan.microbatch);
  json.set("microbatches", plan.num_microbatches());
  json.set("step_seconds", step);
  json.set("throughput", step > 0 ? plan.minibatch / step : 0.0);
  json.set("bubble", planned.estimate.bubble);
  json.set("bottleneck_seconds", planned.bottleneck.value());
  json.set("promised_seconds", planned.promised.value());
  json.set("lower_bound_seconds", planned.lower_bound.value());
  json.set("gap", gap(planned));
  json.set("memory_bytes", largest_memory(planned).value());
  json.set("traffic_bytes", planned.estimate.traffic.value());
  Json stages = Json::array();
  for (const Stage& stage : plan.stages)
    stages.push(stage_json(stage, planned, loaded));
  json.set("stages", std::move(stages));
  if (!planned.why.empty()) json.set("why", planned.why);
  if (!planned.notes.empty()) json.set("notes", strings(planned.notes));
  return json;
}

}  // namespace pipewright::cli
