#include "pipewright/report/plan_report.h"

#include "pipewright/plan/gradient_buckets.h"
#include "pipewright/report/report_parts.h"
#include "pipewright/timeline/bottleneck.h"
#include "pipewright/timeline/timeline_json.h"

namespace pipewright {
namespace {

Json plan_part(const Plan& plan) {
  Json json = Json::object();
  json.set("model", plan.model);
  json.set("planner", plan.planner);
  json.set("method", to_text(plan.method));
  json.set("schedule", plan.schedule_name);
  json.set("minibatch", plan.minibatch);
  json.set("microbatch", plan.microbatch);
  json.set("microbatches", plan.num_microbatches());
  json.set("stages", plan.num_stages());
  json.set("workers", plan.num_workers());
  return json;
}

Json improvements_part(const std::vector<Improvement>& list) {
  Json json = Json::array();
  for (const Improvement& improvement : list)
    json.push(Json::object()
                  .set("what", improvement.what)
                  .set("step_seconds", improvement.step.value())
                  .set("saved", improvement.saved));
  return json;
}

// As `simulate --json` has it.
Json simulation_part(const SimulatedPlan& simulated) {
  Json json = to_json(simulated.timeline);
  json.set("bound_by",
           bottleneck_text(simulated.path, whole_stage_ids(simulated.plan)));
  Json staleness = Json::array();
  for (const StageDelay& stage : simulated.facts.staleness)
    staleness.push(Json::object()
                       .set("forward_steps", stage.forward)
                       .set("backward_steps", stage.backward)
                       .set("corrected", stage.averaging > 0));
  json.set("staleness", std::move(staleness));
  return json;
}

}  // namespace

Json report_of(const std::string& title, Json::Array plans) {
  Json json = Json::object();
  json.set("format", "pipewright/report");
  json.set("version", 1);
  json.set("title", title);
  json.set("plans", std::move(plans));
  return json;
}

Result<Json> plan_report(const Plan& plan, const Problem& problem,
                         const std::string& why) {
  PIPEWRIGHT_TRY(const SimulatedPlan simulated, simulated_plan(plan, problem));
  const std::optional<Planned> anew = planned_anew(simulated);
  const std::vector<Improvement> found = improvements(simulated, anew);
  PIPEWRIGHT_TRY(Json model, model_part(simulated));
  Json json = Json::object();
  json.set("plan", plan_part(plan));
  json.set("summary",
           summary_part(simulated,
                        why.empty() ? why_text(simulated, anew) : why, found));
  json.set("simulation", simulation_part(simulated));
  json.set("bound", bound_part(simulated));
  json.set("improvements", improvements_part(found));
  json.set("timeline", timeline_part(simulated));
  json.set("memory", memory_part(simulated));
  json.set("model", std::move(model));
  json.set("cluster", cluster_part(simulated));
  return json;
}

}  // namespace pipewright
