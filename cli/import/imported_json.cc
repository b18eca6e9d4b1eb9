#include "cli/import/imported_json.h"

#include "pipewright/profile/formats/assembly.h"

namespace pipewright::cli {
namespace {

Json imported_json(const Profile& profile) {
  Json json = Json::object();
  json.set("model", profile.model);
  json.set("layers", profile.num_layers());
  json.set("edges", totals_of(profile, "", 0).edges);
  json.set("parameter_bytes", profile.parameter_bytes().value());
  Json times = Json::array();
  for (const auto& [kind, tables] : profile.times)
    for (const auto& [microbatch, rows] : tables) {
      const ProfileTotals totals = totals_of(profile, kind, microbatch);
      Json row = Json::object();
      row.set("kind", kind);
      row.set("microbatch", microbatch);
      row.set("forward_seconds", totals.forward.value());
      row.set("backward_seconds", totals.backward.value());
      row.set("update_seconds", totals.update.value());
      times.push(std::move(row));
    }
  json.set("times", std::move(times));
  Json estimated = Json::array();
  for (const std::string& what : estimates(profile)) estimated.push(what);
  json.set("estimated", std::move(estimated));
  json.set("origin", profile.origin.description);
  return json;
}

Json imported_json(const BandwidthTable& table) {
  Json json = Json::object();
  json.set("operation", table.operation);
  json.set("from", table.from);
  json.set("to", table.to);
  json.set("devices", table.devices);
  if (table.fit) {
    Json fit = Json::array();
    for (double c : table.fit->c) fit.push(c);
    json.set("fit", std::move(fit));
    json.set("peak_bytes_per_second", table.fit->peak.value());
    return json;
  }
  Json points = Json::array();
  for (const BandwidthPoint& point : table.points) {
    Json pair = Json::array();
    pair.push(point.message.value());
    pair.push(point.rate.value());
    points.push(std::move(pair));
  }
  json.set("points", std::move(points));
  return json;
}

template <class Value>
Json values_json(const std::vector<Value>& values) {
  Json list = Json::array();
  for (const Value& value : values) list.push(Json(value));
  return list;
}

Json imported_json(const PublishedStage& stage) {
  Json json = Json::object();
  json.set("layers", values_json(stage.layers));
  json.set("replicas", stage.replicas);
  if (!stage.workers.empty()) json.set("workers", values_json(stage.workers));
  if (!stage.devices.empty()) json.set("devices", values_json(stage.devices));
  if (!stage.zones.empty()) json.set("zones", values_json(stage.zones));
  if (!stage.gpus.empty()) json.set("gpus", values_json(stage.gpus));
  if (!stage.tensor_parallel.empty())
    json.set("tensor_parallel", values_json(stage.tensor_parallel));
  if (!stage.recompute.empty())
    json.set("recompute", values_json(stage.recompute));
  if (!stage.shards_weights.empty())
    json.set("shards_weights", values_json(stage.shards_weights));
  return json;
}

Json imported_json(const PublishedPlan& plan) {
  Json json = Json::object();
  json.set("source", plan.source);
  Json stages = Json::array();
  for (const PublishedStage& stage : plan.stages)
    stages.push(imported_json(stage));
  json.set("stages", std::move(stages));
  json.set("minibatch", plan.minibatch);
  json.set("microbatch", plan.microbatch);
  json.set("microbatches", plan.microbatches);
  if (plan.hosts > 0) json.set("hosts", plan.hosts);
  if (!plan.schedule.empty()) json.set("schedule", plan.schedule);
  if (!plan.data_parallel_type.empty())
    json.set("data_parallel_type", plan.data_parallel_type);
  if (plan.measured_step)
    json.set("measured_step_seconds", plan.measured_step->value());
  if (plan.measured_reduce)
    json.set("measured_reduce_seconds", plan.measured_reduce->value());
  if (plan.measured_memory)
    json.set("measured_memory_bytes", plan.measured_memory->value());
  return json;
}

Json imported_json(const ImportedDevices& devices) {
  Json json = Json::object();
  json.set("kind", devices.kind);
  json.set("count", devices.count);
  json.set("memory_bytes", devices.memory.value());
  json.set("bandwidth_bytes_per_second", devices.bandwidth.value());
  return json;
}

template <class Things>
Json list_of(const Things& things) {
  Json list = Json::array();
  for (const auto& thing : things) list.push(imported_json(thing));
  return list;
}

}  // namespace

std::vector<std::string> estimates(const Profile& profile) {
  std::vector<std::string> list;
  if (profile.origin.split_is_estimated)
    list.push_back("the split of backward into input and weight gradients");
  if (profile.origin.keeps_is_estimated)
    list.push_back("what layers keep for backward");
  return list;
}

Json imported_json(const Imported& imported) {
  Json json = Json::object();
  json.set("from", imported.from);
  json.set("what", imported.what);
  Json source = Json::object();
  source.set("nodes", imported.totals.nodes);
  source.set("edges", imported.totals.edges);
  source.set("forward_seconds", imported.totals.forward.value());
  source.set("backward_seconds", imported.totals.backward.value());
  source.set("parameter_bytes", imported.totals.parameters.value());
  json.set("source", std::move(source));
  json.set("profile",
           imported.profile ? imported_json(*imported.profile) : Json());
  if (!imported.profile) json.set("no_profile", imported.no_profile);
  json.set("devices", list_of(imported.devices));
  json.set("bandwidths", list_of(imported.bandwidths));
  json.set("plans", list_of(imported.plans));
  Json notes = Json::array();
  for (const std::string& note : imported.notes) notes.push(note);
  json.set("notes", std::move(notes));
  return json;
}

}  // namespace pipewright::cli
