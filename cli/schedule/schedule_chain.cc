#include "cli/schedule/schedule_chain.h"

#include <algorithm>

#include "pipewright/plan/lowering/lower.h"
#include "pipewright/plan/validation/validate.h"
#include "pipewright/simulate/given_costs.h"

namespace pipewright::cli {
namespace {

// A layer keeps what it reads; the first one reads the model's input.
Profile chain_profile(int num_stages) {
  Profile profile;
  profile.model = "chain";
  for (int s = 0; s < num_stages; ++s) {
    ProfileLayer layer;
    layer.name = "stage" + std::to_string(s);
    layer.kind = "stage";
    if (s > 0) {
      layer.inputs = {LayerId(s - 1)};
      layer.keeps_input = {true};
    }
    layer.keeps_model_input = s == 0;
    profile.layers.push_back(layer);
  }
  return profile;
}

// A whole microbatch is one byte, however many replicas split it.
void add_sizes(Profile& profile, int samples) {
  auto& sizes = profile.sizes[samples];
  for (std::size_t s = 0; s < profile.layers.size(); ++s)
    sizes.push_back({Bytes(1), Bytes(s == 0 ? 1 : 0), Bytes(0)});
}

std::vector<Stage> stages_of(const Schedule& schedule) {
  std::vector<Stage> stages(schedule.num_stages());
  for (std::size_t s = 0; s < stages.size(); ++s)
    stages[s].forward = stages[s].backward = {LayerId(s)};
  const Orders& body = schedule.sections().body;
  for (std::size_t w = 0; w < body.size(); ++w)
    for (const ComputeAction& action : body[w]) {
      Stage& stage = stages[action.stage.index()];
      if (stage.workers.empty() || stage.workers.back() != WorkerId(w))
        stage.workers.push_back(WorkerId(w));
      stage.recompute |= action.kind == ComputeKind::Recompute;
    }
  return stages;
}

// If replicas split microbatches, each action is on all of them.
Replication replication_of(const Schedule& schedule) {
  std::vector<int> forwards(schedule.num_stages());
  for (const auto& order : schedule.sections().body)
    for (const ComputeAction& action : order)
      forwards[action.stage.index()] += action.kind == ComputeKind::Forward;
  const int max = *std::max_element(forwards.begin(), forwards.end());
  return max > schedule.num_microbatches() ? Replication::Split
                                           : Replication::Rotate;
}

Plan chain_plan(const Schedule& schedule) {
  Plan plan;
  plan.model = "chain";
  plan.method = schedule.is_asynchronous() ? Method::Stash : Method::Sync;
  plan.stages = stages_of(schedule);
  plan.replication = replication_of(schedule);
  std::size_t replicas = 1;
  for (const Stage& stage : plan.stages)
    replicas = std::max(replicas, stage.workers.size());
  plan.microbatch = static_cast<int>(replicas);  // one sample per replica
  plan.minibatch = plan.microbatch * schedule.num_microbatches();
  for (int w = 0; w < schedule.num_workers(); ++w)
    plan.devices.push_back(DeviceId(w));
  plan.schedule = schedule;
  return plan;
}

Costs chain_costs(const Program& program, const ScheduleRequest& request) {
  return given_costs(
      program,
      [&](const Operation& operation) {
        const auto& times = request.times.at(operation.stage.index());
        return Costs::OperationCost{
            {times.forward, times.backward_input + times.backward_weight,
             times.backward_input, times.backward_weight, times.forward},
            Seconds(0)};
      },
      request.transfer);
}

}  // namespace

Result<TimedSchedule> timed_schedule(const Schedule& schedule,
                                     const ScheduleRequest& request) {
  const Plan plan = chain_plan(schedule);
  Profile profile = chain_profile(schedule.num_stages());
  add_sizes(profile, plan.microbatch);
  // No transfer waits for its receive: times depend on the schedule alone.
  LowerOptions options;
  options.window = schedule.num_microbatches() * schedule.num_stages();
  PIPEWRIGHT_TRY(Program program, lower(plan, profile, options));
  if (auto facts = validate(program); !facts) return facts.error();
  Costs costs = chain_costs(program, request);
  return TimedSchedule{std::move(program), std::move(costs)};
}

Timeline timeline_of(const Schedule& schedule, const TimedSchedule& timed) {
  SimulateOptions how;
  if (schedule.is_asynchronous())
    how.minibatches = schedule.sections().minibatches_outside + 2;
  return simulate(timed.program, timed.costs, how);
}

}  // namespace pipewright::cli
