#include "cli/export/plan_limits.h"

#include <algorithm>

#include "pipewright/base/text.h"
#include "pipewright/schedules/generator.h"

namespace pipewright::cli {
namespace {

std::vector<WorkerId> pipeline_workers(const Plan& plan) {
  std::vector<WorkerId> workers;
  for (const Stage& stage : plan.stages)
    if (std::find(workers.begin(), workers.end(), stage.workers.front()) ==
        workers.end())
      workers.push_back(stage.workers.front());
  return workers;
}

std::vector<ComputeAction> without_recompute(
    const std::vector<ComputeAction>& order) {
  std::vector<ComputeAction> kept;
  for (const ComputeAction& action : order)
    if (action.kind != ComputeKind::Recompute) kept.push_back(action);
  return kept;
}

}  // namespace

Result<void> check_synchronous(const Plan& plan, const std::string& system) {
  if (is_asynchronous(plan.method))
    return bad_configuration(
        system + " trains synchronously; the plan's method is " +
            to_text(plan.method),
        "plan with --method sync");
  for (int s = 0; s < plan.num_stages(); ++s)
    if (const Stage& stage = plan.stages[static_cast<std::size_t>(s)];
        stage.forward != stage.backward)
      return bad_configuration(
          system + " runs backward where forward ran; stage " +
              std::to_string(s) +
              " of the plan has other layers in backward (Bi-Partition)",
          "plan with another planner, such as --planner balanced");
  return {};
}

Result<int> equal_replicas(const Plan& plan, const std::string& system) {
  const std::size_t first = plan.stages.front().workers.size();
  for (int s = 0; s < plan.num_stages(); ++s) {
    const std::size_t here =
        plan.stages[static_cast<std::size_t>(s)].workers.size();
    if (here != first)
      return bad_configuration(
          system + " replicates all stages equally; stage 0 of the plan has " +
              counted(static_cast<std::int64_t>(first), "worker") + ", stage " +
              std::to_string(s) + " has " + std::to_string(here),
          "plan with --planner balanced");
  }
  const int replicas = static_cast<int>(first);
  if (replicas > 1 && plan.replication != Replication::Split)
    return bad_configuration(
        system + " splits samples over replicas; those of the plan take turns");
  for (const Stage& stage : plan.stages)
    if (!stage.samples.empty())
      return bad_configuration(
          system +
              " gives every replica equally many samples; those of the plan "
              "have shares by speed",
          "plan with --shares equal");
  if (plan.microbatch % replicas != 0)
    return bad_configuration(
        system + " gives every replica equally many samples; " +
        std::to_string(replicas) + " replicas share a microbatch of " +
        std::to_string(plan.microbatch));
  return replicas;
}

Result<bool> recomputes_everywhere(const Plan& plan,
                                   const std::string& system) {
  const auto number =
      std::count_if(plan.stages.begin(), plan.stages.end(),
                    [](const Stage& stage) { return stage.recompute; });
  if (number == 0 || number == plan.num_stages()) return number != 0;
  return bad_configuration(system + " recomputes in all stages or in none; " +
                           std::to_string(number) + " of " +
                           counted(plan.num_stages(), "stage") +
                           " of the plan recompute");
}

int num_pipeline_workers(const Plan& plan) {
  return static_cast<int>(pipeline_workers(plan).size());
}

std::string order_among(const Plan& plan,
                        const std::vector<std::string>& generators) {
  const std::vector<WorkerId> workers = pipeline_workers(plan);
  ScheduleRequest request;
  request.workers = static_cast<int>(workers.size());
  request.microbatches = plan.num_microbatches();
  request.stages_per_worker = std::max(1, plan.num_stages() / request.workers);
  for (const std::string& name : generators) {
    const auto schedule = generate_schedule(name, request);
    if (!schedule || schedule->num_stages() != plan.num_stages()) continue;
    const Orders& wanted = schedule->sections().body;
    bool is_same = !plan.schedule.is_asynchronous();
    for (std::size_t w = 0; is_same && w < workers.size(); ++w)
      is_same =
          without_recompute(
              plan.schedule.sections().body[workers[w].index()]) == wanted[w];
    if (is_same) return name;
  }
  return "";
}

}  // namespace pipewright::cli
