// A plan as plain JSON, with layers by name and orders as lists: for programs
// that read plans and know neither our models nor our text forms.

#include <algorithm>

#include "cli/export/exporter.h"
#include "pipewright/plan/sample_range.h"

namespace pipewright::cli {
namespace {

Json layer_names(const std::vector<LayerId>& layers, const Profile& profile) {
  Json names = Json::array();
  for (LayerId id : layers) names.push(profile.layers[id.index()].name);
  return names;
}

Json stages_json(const PlannedModel& model) {
  Json list = Json::array();
  for (const Stage& stage : model.plan.stages) {
    Json workers = Json::array();
    Json samples = Json::array();
    for (std::size_t j = 0; j < stage.workers.size(); ++j) {
      const SampleRange range =
          samples_of(model.plan, stage, static_cast<int>(j));
      workers.push(stage.workers[j].value);
      samples.push(range.end - range.first);
    }
    list.push(
        Json::object()
            .set("layers", layer_names(stage.forward, model.profile))
            .set("backward_layers", layer_names(stage.backward, model.profile))
            .set("workers", std::move(workers))
            .set("samples", std::move(samples))
            .set("recompute", stage.recompute)
            .set("continues_segment", stage.continues));
  }
  return list;
}

Json order_json(const Orders& orders, std::size_t worker) {
  Json list = Json::array();
  if (orders.empty()) return list;
  for (const ComputeAction& action : orders[worker])
    list.push(Json::object()
                  .set("stage", action.stage.value)
                  .set("kind", std::string(1, letter(action.kind)))
                  .set("microbatch", action.microbatch.value)
                  .set("joined", action.joined));
  return list;
}

Json workers_json(const Plan& plan) {
  const ScheduleSections& sections = plan.schedule.sections();
  Json list = Json::array();
  for (std::size_t w = 0; w < plan.devices.size(); ++w)
    list.push(Json::object()
                  .set("device", plan.devices[w].value)
                  .set("device_kind",
                       plan.device_kinds.empty() ? "" : plan.device_kinds[w])
                  .set("prologue", order_json(sections.prologue, w))
                  .set("body", order_json(sections.body, w))
                  .set("epilogue", order_json(sections.epilogue, w)));
  return list;
}

}  // namespace

Result<ExportedPlan> to_plain_json(const PlannedModel& model) {
  const Plan& plan = model.plan;
  const Json json =
      Json::object()
          .set("format", "pipewright/plain-plan")
          .set("version", 1)
          .set("model", plan.model)
          .set("planner", plan.planner)
          .set("method", to_text(plan.method))
          .set("minibatch", plan.minibatch)
          .set("microbatch", plan.microbatch)
          .set("microbatches", plan.num_microbatches())
          .set("replication",
               plan.replication == Replication::Split ? "split" : "rotate")
          .set("schedule", plan.schedule_name)
          .set("minibatches_outside",
               plan.schedule.sections().minibatches_outside)
          .set("stages", stages_json(model))
          .set("workers", workers_json(plan));
  return ExportedPlan{{{"plan.json", json.to_text()}}};
}

}  // namespace pipewright::cli
