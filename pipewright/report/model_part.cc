#include <algorithm>
#include <map>

#include "pipewright/base/text.h"
#include "pipewright/report/report_parts.h"

namespace pipewright {
namespace {

constexpr std::size_t kMaxBars = 2000;

// Costs of all layers at the microbatch sizes and on the kinds of device that
// the plan uses, each looked up once.
class LayerCosts {
 public:
  explicit LayerCosts(const SimulatedPlan& simulated) : simulated_(simulated) {}

  Result<const std::vector<LayerTimes>*> times(const Operation& operation) {
    const DeviceId device =
        simulated_.program.workers[operation.worker.index()].device;
    const std::string& kind = simulated_.cluster().kind_of(device).name;
    const int samples = std::max(1, operation.num_samples());
    auto& known = times_[{kind, samples}];
    if (known.empty()) {
      PIPEWRIGHT_TRY(known, times_at(simulated_.profile(), kind, samples,
                                     Outside::Extrapolate));
    }
    return &known;
  }

 private:
  const SimulatedPlan& simulated_;
  std::map<std::pair<std::string, int>, std::vector<LayerTimes>> times_;
};

struct LayerBar {
  Seconds forward, backward;
  int forward_stage = -1, backward_stage = -1;
};

Result<std::vector<LayerBar>> bars_of(const SimulatedPlan& simulated) {
  std::vector<LayerBar> bars(simulated.profile().layers.size());
  LayerCosts costs(simulated);
  for (const Operation& operation : simulated.program.operations) {
    PIPEWRIGHT_TRY(const std::vector<LayerTimes>* times,
                   costs.times(operation));
    for (LayerId layer : operation.forward) {
      bars[layer.index()].forward = (*times)[layer.index()].forward;
      bars[layer.index()].forward_stage = operation.stage.value;
    }
    for (LayerId layer : operation.backward) {
      bars[layer.index()].backward = (*times)[layer.index()].backward();
      bars[layer.index()].backward_stage = operation.stage.value;
    }
  }
  return bars;
}

// Per layer, the bytes made up to it and used after it: each storage once.
std::vector<Bytes> crossing_bytes(const Profile& profile,
                                  const std::vector<LayerSizes>& sizes) {
  const std::vector<LayerId> storages = profile.storages();
  std::vector<std::size_t> last_use(profile.layers.size(), 0);
  for (std::size_t l = 0; l < profile.layers.size(); ++l)
    for (LayerId input : profile.layers[l].inputs)
      last_use[storages[input.index()].index()] = l;
  std::vector<Bytes> change(profile.layers.size() + 1), crossing;
  for (std::size_t l = 0; l < profile.layers.size(); ++l)
    if (storages[l].index() == l && last_use[l] > l) {
      change[l] += sizes[l].output;
      change[last_use[l]] -= sizes[l].output;
    }
  Bytes now;
  for (std::size_t l = 0; l < profile.layers.size(); ++l)
    crossing.push_back(now += change[l]);
  return crossing;
}

std::string bar_name(const Profile& profile, std::size_t first,
                     std::size_t last) {
  if (first == last) return profile.layers[first].name;
  return profile.layers[first].name + " .. " + profile.layers[last].name;
}

// One bar of the page: one layer, or several neighbours of very many.
Json bar_json(const SimulatedPlan& simulated, const std::vector<LayerBar>& bars,
              const std::vector<LayerSizes>& sizes, std::size_t first,
              std::size_t last) {
  const Profile& profile = simulated.profile();
  Seconds forward, backward;
  Bytes parameters;
  for (std::size_t l = first; l <= last; ++l) {
    forward += bars[l].forward;
    backward += bars[l].backward;
    parameters += profile.parameter_bytes(LayerId(l));
  }
  Json json = Json::object();
  json.set("name", bar_name(profile, first, last));
  json.set("kind", first == last ? profile.layers[first].kind : "");
  json.set("forward_seconds", forward.value());
  json.set("backward_seconds", backward.value());
  json.set("parameter_bytes", parameters.value());
  json.set("output_bytes", sizes[last].output.value());
  json.set("forward_stage", bars[first].forward_stage);
  json.set("backward_stage", bars[first].backward_stage);
  return json;
}

Json stage_part(const SimulatedPlan& simulated, std::size_t s) {
  const Stage& stage = simulated.plan.stages[s];
  Json workers = Json::array();
  for (WorkerId worker : stage.workers) workers.push(worker.value);
  Seconds forward, backward;
  for (std::size_t o = 0; o < simulated.program.operations.size(); ++o) {
    if (simulated.program.operations[o].stage.index() != s) continue;
    const Costs::OperationCost& cost = simulated.costs.operations[o];
    forward = std::max(forward, cost.compute[int(ActionKind::Forward)]);
    backward = std::max(backward, cost.compute[int(ActionKind::Backward)]);
  }
  Bytes weights;
  for (LayerId layer : stage.backward)
    weights += simulated.profile().parameter_bytes(layer);
  Json json = Json::object();
  json.set("workers", std::move(workers));
  json.set("forward_layers", stage.forward.size());
  json.set("backward_layers", stage.backward.size());
  json.set("forward_seconds", forward.value());
  json.set("backward_seconds", backward.value());
  json.set("parameter_bytes", weights.value());
  json.set("recompute", stage.recompute);
  return json;
}

}  // namespace

Result<Json> model_part(const SimulatedPlan& simulated) {
  const Profile& profile = simulated.profile();
  PIPEWRIGHT_TRY(const std::vector<LayerBar> bars, bars_of(simulated));
  PIPEWRIGHT_TRY(
      const std::vector<LayerSizes> sizes,
      sizes_at(profile, simulated.plan.microbatch, Outside::Extrapolate));
  const std::vector<Bytes> crossing = crossing_bytes(profile, sizes);
  const std::size_t merged = (bars.size() + kMaxBars - 1) / kMaxBars;
  Json layers = Json::array(), stages = Json::array();
  for (std::size_t l = 0; l < bars.size(); l += merged) {
    const std::size_t last = std::min(bars.size(), l + merged) - 1;
    Json bar = bar_json(simulated, bars, sizes, l, last);
    bar.set("crossing_bytes", crossing[last].value());
    layers.push(std::move(bar));
  }
  for (std::size_t s = 0; s < simulated.plan.stages.size(); ++s)
    stages.push(stage_part(simulated, s));
  Json json = Json::object();
  json.set("name", profile.model);
  json.set("source", profile.origin.source);
  json.set("layers_per_bar", merged);
  json.set("num_layers", bars.size());
  json.set("parameter_bytes", profile.parameter_bytes().value());
  json.set("layers", std::move(layers));
  json.set("stages", std::move(stages));
  return json;
}

}  // namespace pipewright
