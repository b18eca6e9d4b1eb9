#include "pipewright/planners/pipeline.h"

#include <cstdint>
#include <iterator>
#include <set>

#include "pipewright/base/index.h"
#include "pipewright/plan/replica_count.h"
#include "pipewright/planners/time_limit.h"

namespace pipewright {
namespace {

// After the time limit only schedules that are made within a tenth of a second.
constexpr std::int64_t kMaxLateActions = 200'000;

// Which worker runs which stage, in a schedule without replicas.
std::vector<WorkerId> worker_of_stages(const Schedule& schedule) {
  std::vector<WorkerId> worker_of(at(schedule.num_stages()));
  const auto& body = schedule.sections().body;
  for (std::size_t w = 0; w < body.size(); ++w)
    for (const ComputeAction& action : body[w])
      worker_of[action.stage.index()] = WorkerId(w);
  return worker_of;
}

// One stage of each worker; all of its stages have the same devices.
Result<std::vector<const PipelineStage*>> stage_of_workers(
    const Pipeline& pipeline, const std::vector<WorkerId>& worker_of,
    int num_workers) {
  std::vector<const PipelineStage*> stage_of(at(num_workers));
  std::set<DeviceId> taken;
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    const PipelineStage*& first = stage_of[worker_of[s].index()];
    if (!first) {
      first = &pipeline.stages[s];
      for (DeviceId device : first->devices)
        if (!taken.insert(device).second)
          return bad_configuration("two workers share a device");
    }
    if (first->devices != pipeline.stages[s].devices)
      return bad_configuration("stages of one worker have different devices");
  }
  return stage_of;
}

ScheduleRequest request_of(const Pipeline& pipeline, const Problem& problem) {
  ScheduleRequest request;
  request.stages_per_worker = pipeline.stages_per_worker;
  request.workers = pipeline.num_workers();
  request.microbatches = problem.minibatch / pipeline.microbatch;
  request.times = pipeline.times;
  request.transfer = pipeline.transfer;
  return request;
}

Result<Plan> plan_with(const Schedule& schedule, const Pipeline& pipeline,
                       const Problem& problem, const std::string& planner) {
  const std::vector<WorkerId> worker_of = worker_of_stages(schedule);
  PIPEWRIGHT_CHECK(worker_of.size() == pipeline.stages.size(),
                   "the schedule has another number of stages");
  PIPEWRIGHT_TRY(const std::vector<const PipelineStage*> stage_of_worker,
                 stage_of_workers(pipeline, worker_of, schedule.num_workers()));

  Plan plan;
  plan.model = problem.profile->model;
  plan.planner = planner;
  plan.method = problem.method;
  plan.minibatch = problem.minibatch;
  plan.microbatch = pipeline.microbatch;
  plan.replication = pipeline.replication;
  plan.optimizer_words = problem.optimizer_words;
  plan.schedule_name = pipeline.schedule;
  std::vector<int> replicas;
  std::vector<std::vector<WorkerId>> workers;
  for (const PipelineStage* stage : stage_of_worker) {
    auto& ids = workers.emplace_back();
    for (DeviceId device : stage->devices) {
      ids.push_back(WorkerId(plan.devices.size()));
      plan.devices.push_back(device);
    }
    replicas.push_back(static_cast<int>(ids.size()));
  }
  PIPEWRIGHT_TRY(plan.schedule,
                 with_replicas(schedule, replicas, pipeline.replication));
  int first = 0, backward_first = 0;
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    const PipelineStage& from = pipeline.stages[s];
    const int backward_end =
        from.backward_end < 0 ? from.end : from.backward_end;
    Stage stage;
    for (; first < from.end; ++first) stage.forward.push_back(LayerId(first));
    for (; backward_first < backward_end; ++backward_first)
      stage.backward.push_back(LayerId(backward_first));
    stage.workers = workers[worker_of[s].index()];
    stage.recompute = from.recompute;
    plan.stages.push_back(std::move(stage));
  }
  if (Result<void> checked = check_plan(plan, *problem.profile); !checked)
    return checked.error();
  return plan;
}

// Forwards and backwards of a minibatch, on all workers.
std::int64_t num_actions(const Pipeline& pipeline, const Problem& problem) {
  std::int64_t per_microbatch = 0;
  for (const PipelineStage& stage : pipeline.stages)
    per_microbatch += pipeline.replication == Replication::Split
                          ? std::ssize(stage.devices)
                          : 1;
  return 2 * per_microbatch * (problem.minibatch / pipeline.microbatch);
}

Result<Planned> estimated(Plan plan, const Pipeline& pipeline,
                          const Problem& problem) {
  Planned result;
  result.layer_groups = pipeline.layer_groups;
  result.plan = std::move(plan);
  PIPEWRIGHT_TRY(result.estimate, problem.estimate(result.plan));
  result.promised = result.estimate.step;
  return result;
}

}  // namespace

Result<Plan> plan_of(const Pipeline& pipeline, const Problem& problem,
                     const std::string& planner) {
  const ScheduleRequest request = request_of(pipeline, problem);
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s)
    if (auto checked = check_replica_count(
            s, pipeline.stages[s].devices.size(), pipeline.replication,
            pipeline.microbatch, request.microbatches);
        !checked)
      return checked.error();
  PIPEWRIGHT_TRY(const Schedule schedule,
                 generate_schedule(pipeline.schedule, request));
  return plan_with(schedule, pipeline, problem, planner);
}

Result<Planned> planned(const Pipeline& pipeline, const Problem& problem,
                        const std::string& planner) {
  if (num_actions(pipeline, problem) > kMaxLateActions && problem.is_over())
    return ended_before(problem, "a plan was found");
  PIPEWRIGHT_TRY(Plan plan, plan_of(pipeline, problem, planner));
  return estimated(std::move(plan), pipeline, problem);
}

Result<Planned> planned(const Pipeline& pipeline, const Schedule& schedule,
                        const Problem& problem, const std::string& planner) {
  PIPEWRIGHT_TRY(Plan plan, plan_with(schedule, pipeline, problem, planner));
  return estimated(std::move(plan), pipeline, problem);
}

}  // namespace pipewright
