#include "pipewright/timeline/timeline_json.h"

namespace pipewright {
namespace {

Json to_json(const MemoryUse& use) {
  Json json = Json::object();
  json.set("weights", use.weights.value());
  json.set("gradients", use.gradients.value());
  json.set("optimizer", use.optimizer.value());
  json.set("activations", use.activations.value());
  json.set("buffers", use.buffers.value());
  if (use.total() == use.of_program()) return json;
  json.set("base", use.base.value());
  json.set("fragmentation", use.fragmentation.value());
  return json;
}

Json to_json(const WorkerSummary& worker) {
  Json json = Json::object();
  json.set("device", worker.device.value);
  json.set("busy_seconds", worker.busy.value());
  json.set("waiting_for_link_seconds", worker.waiting_for_link.value());
  json.set("memory_peak_bytes", worker.peak.total().value());
  json.set("memory_peak_at_seconds", worker.peak_at.value());
  json.set("memory_peak", to_json(worker.peak));
  return json;
}

Json to_json(const LinkSummary& link) {
  Json json = Json::object();
  json.set("from", link.from.value);
  json.set("to", link.to.value);
  json.set("bytes", link.bytes.value());
  json.set("busy_seconds", link.busy.value());
  return json;
}

}  // namespace

Json to_json(const Timeline& timeline) {
  Json json = Json::object();
  json.set("step_seconds", timeline.step_seconds.value());
  json.set("bubble", timeline.bubble);
  json.set("duration_seconds", timeline.duration.value());
  json.set("minibatches", timeline.minibatches);
  Json devices = Json::array();
  for (const WorkerSummary& worker : timeline.workers)
    devices.push(to_json(worker));
  json.set("devices", std::move(devices));
  Json links = Json::array();
  for (const LinkSummary& link : timeline.links) links.push(to_json(link));
  json.set("links", std::move(links));
  return json;
}

}  // namespace pipewright
