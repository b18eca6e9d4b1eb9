#include <algorithm>
#include <map>

#include "pipewright/report/report_parts.h"

namespace pipewright {
namespace {

struct LinkUse {
  double sent = 0, reduced = 0;  // bytes per step
  double busy = 0;               // share of the run
};

using LinkUses = std::map<std::pair<WorkerId, WorkerId>, LinkUse>;

// A ring sends over each of its links; a reduction is done once per step.
void add_rings(const SimulatedPlan& simulated, LinkUses& uses) {
  for (std::size_t r = 0; r < simulated.program.reductions.size(); ++r) {
    std::vector<WorkerId> ring = simulated.program.reductions[r].workers;
    std::sort(ring.begin(), ring.end());
    ring.erase(std::unique(ring.begin(), ring.end()), ring.end());
    for (std::size_t i = 0; i < ring.size() && ring.size() > 1; ++i)
      uses[{ring[i], ring[(i + 1) % ring.size()]}].reduced +=
          simulated.costs.reductions[r].bytes;
  }
}

LinkUses link_uses(const SimulatedPlan& simulated) {
  const Timeline& timeline = simulated.timeline;
  LinkUses uses;
  for (const LinkSummary& link : timeline.links) {
    LinkUse& use = uses[{link.from, link.to}];
    use.sent = double(link.bytes.value()) / timeline.minibatches;
    if (timeline.duration > Seconds(0))
      use.busy = link.busy / timeline.duration;
  }
  add_rings(simulated, uses);
  return uses;
}

Json links_json(const SimulatedPlan& simulated) {
  const Cluster& cluster = simulated.cluster();
  Json links = Json::array();
  for (const auto& [pair, use] : link_uses(simulated)) {
    const DeviceId from = simulated.plan.devices[pair.first.index()];
    const DeviceId to = simulated.plan.devices[pair.second.index()];
    const Link* link = cluster.link(from, to);
    Json shared = Json::array();
    for (std::size_t i = 0; link && i < link->uses.size(); ++i)
      shared.push(
          cluster.resources()[std::size_t(link->uses[i].resource)].name);
    const bool is_real = link && from != to;
    Json json = Json::object();
    json.set("from", pair.first.value);
    json.set("to", pair.second.value);
    json.set("bandwidth", is_real ? Json(link->bandwidth.value()) : Json());
    json.set("latency_seconds", is_real ? link->latency.value() : 0.0);
    json.set("bytes_per_step", use.sent);
    json.set("reduced_bytes_per_step", use.reduced);
    json.set("busy_share", use.busy);
    json.set("shares", std::move(shared));
    links.push(std::move(json));
  }
  return links;
}

Json device_json(const SimulatedPlan& simulated, std::size_t d, int worker) {
  const Device& device = simulated.cluster().devices()[d];
  const Timeline& timeline = simulated.timeline;
  Json json = Json::object();
  json.set("name", device.name);
  json.set("kind", simulated.cluster().kind_of(DeviceId(d)).name);
  json.set("host", device.host);
  json.set("memory_bytes",
           simulated.problem.memory_with_base_of(DeviceId(d)).value());
  json.set("worker", worker);
  if (worker >= 0 && timeline.duration > Seconds(0))
    json.set("busy_share",
             timeline.workers[std::size_t(worker)].busy / timeline.duration);
  return json;
}

}  // namespace

Json cluster_part(const SimulatedPlan& simulated) {
  const Cluster& cluster = simulated.cluster();
  std::vector<int> worker_on(cluster.devices().size(), -1);
  for (std::size_t w = 0; w < simulated.plan.devices.size(); ++w)
    worker_on[simulated.plan.devices[w].index()] = int(w);
  Json devices = Json::array();
  for (std::size_t d = 0; d < cluster.devices().size(); ++d)
    devices.push(device_json(simulated, d, worker_on[d]));
  Json json = Json::object();
  json.set("name", cluster.name());
  json.set("hosts", cluster.num_hosts());
  json.set("devices", std::move(devices));
  json.set("links", links_json(simulated));
  return json;
}

}  // namespace pipewright
