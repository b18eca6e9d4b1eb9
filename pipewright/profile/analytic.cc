#include "pipewright/profile/analytic.h"

#include <algorithm>

#include "pipewright/base/text.h"
#include "pipewright/model/kinds.h"
#include "pipewright/profile/tiers.h"

namespace pipewright {
namespace {

// Over the parameter bytes. Weights of two bytes have masters: gradient and
// weight move two bytes each, master and momentum eight each.
constexpr int kUpdatePasses = 5, kMasterPasses = 10;

// The overhead of one layer: none in a streaming design; about 2 us for a
// function call of LibTorch on a CPU core; a kernel launch on a GPU.
Seconds start_overhead(const DeviceKind& kind) {
  if (kind.execution == ExecutionClass::Async) return Seconds(0);
  return kind.name == "cpu" ? Seconds(2e-6) : Seconds(5e-6);
}

// A device in the roofline model.
struct Roof {
  FlopsPerSecond rate;
  BytesPerSecond bandwidth;  // 0: bytes cost nothing (on chip)
  Seconds overhead;

  Seconds time(Flops flops, Bytes bytes) const {
    const Seconds computing = flops / rate;
    if (bandwidth.value() <= 0) return overhead + computing;
    return overhead + std::max(computing, bytes / bandwidth);
  }
};

// The kind's rate in the layer's number type, or in float32 if it has none.
Result<FlopsPerSecond> rate_of(const DeviceKind& kind,
                               const std::string& type) {
  for (const std::string& wanted : {type, std::string("float32")})
    if (auto rate = kind.achievable.find(wanted);
        rate != kind.achievable.end() && rate->second.value() > 0)
      return rate->second;
  return bad_configuration("the device kind \"" + kind.name +
                               "\" has no achievable rate in " + type +
                               " or float32",
                           "give it one in the cluster file");
}

std::string number_type_of(const Layer& layer, const AnalyticOptions& options) {
  if (!options.number_type.empty()) return options.number_type;
  return is_floating(layer.output_type) ? to_text(layer.output_type)
                                        : "float32";
}

bool any_input_needs_gradient(const Model& model, const Layer& layer) {
  return std::any_of(
      layer.inputs.begin(), layer.inputs.end(),
      [&](const Source& source) { return model.needs_gradient(source); });
}

std::int64_t update_passes(const Parameter& parameter) {
  return size_of(parameter.type) == Bytes(2) ? kMasterPasses : kUpdatePasses;
}

// Per layer, the bytes that an update moves: every parameter at its first user.
std::vector<Bytes> updated_bytes(const Model& model, const Profile& graph) {
  std::vector<Bytes> bytes(graph.layers.size());
  std::vector<bool> seen(graph.parameters.size(), false);
  for (std::size_t i = 0; i < graph.layers.size(); ++i)
    for (ParameterId parameter : graph.layers[i].parameters) {
      if (seen[parameter.index()]) continue;
      seen[parameter.index()] = true;
      bytes[i] += graph.parameters[parameter.index()].bytes *
                  update_passes(model.parameter(parameter));
    }
  return bytes;
}

LayerTimes layer_times(const Model& model, LayerId id, int microbatch,
                       Bytes updated, const Roof& roof) {
  const Layer& layer = model.layer(id);
  const LayerCost cost = layer_cost(model, id);
  const auto samples = static_cast<double>(microbatch);
  const Bytes moved = cost.memory_traffic.at(microbatch);
  LayerTimes times;
  // A view computes nothing, in either direction.
  if (cost.output_is_view && cost.forward.value() == 0) return times;
  times.forward = roof.time(cost.forward * samples, moved);
  if (any_input_needs_gradient(model, layer))
    times.backward_input = roof.time(cost.backward_input * samples, moved);
  if (!layer.parameters.empty())
    times.backward_weight = roof.time(cost.backward_weight * samples, moved);
  if (updated > Bytes(0)) times.update = roof.time(Flops(0), updated);
  return times;
}

Result<std::vector<LayerTimes>> model_times(const Model& model,
                                            const std::vector<Bytes>& updated,
                                            const DeviceKind& kind,
                                            bool on_chip, int microbatch,
                                            const AnalyticOptions& options) {
  std::vector<LayerTimes> rows;
  for (std::size_t i = 0; i < model.layers().size(); ++i) {
    PIPEWRIGHT_TRY(FlopsPerSecond rate,
                   rate_of(kind, number_type_of(model.layers()[i], options)));
    const BytesPerSecond bandwidth =
        on_chip ? BytesPerSecond(0)
                : kind.memory_bandwidth * options.bandwidth_share;
    rows.push_back(layer_times(model, LayerId(i), microbatch, updated[i],
                               {rate, bandwidth, start_overhead(kind)}));
  }
  return rows;
}

std::string describe(const DeviceKind& kind) {
  std::string text = kind.name + ": achievable";
  for (const auto& [type, rate] : kind.achievable)
    text += " " + type + " " + to_text(rate);
  text += ", memory " + to_text(kind.memory_bandwidth);
  text += ", " + to_text(start_overhead(kind)) + " of overhead per layer";
  if (kind.on_chip_memory > Bytes(0))
    text += ", a second table for stages within " +
            to_text(kind.on_chip_memory) + " on chip";
  return text + " (" + kind.source + ")";
}

std::string describe(std::span<const DeviceKind> kinds,
                     const AnalyticOptions& options) {
  std::string text =
      "roofline estimate: each of forward, input gradient and weight gradient "
      "takes the longer of its FLOPs at the achievable rate and forward's "
      "memory traffic at " +
      to_text(options.bandwidth_share) +
      " of the memory bandwidth, plus a fixed overhead; update moves " +
      std::to_string(kUpdatePasses) + " times the parameter bytes, " +
      std::to_string(kMasterPasses) +
      " times with float32 masters of numbers of two bytes; views are free; no "
      "workspace; numbers in " +
      (options.number_type.empty() ? "the model's type" : options.number_type);
  for (const DeviceKind& kind : kinds) text += "; " + describe(kind);
  return text;
}

ProfileLayer profile_layer(const Model& model, LayerId id) {
  const Layer& layer = model.layer(id);
  const LayerCost cost = layer_cost(model, id);
  ProfileLayer row;
  row.name = layer.name;
  row.kind = to_text(layer.kind);
  for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
    if (layer.inputs[i].is_model_input()) {
      row.keeps_model_input = row.keeps_model_input || cost.keeps_input[i];
      continue;
    }
    row.inputs.push_back(layer.inputs[i].layer);
    row.keeps_input.push_back(cost.keeps_input[i]);
  }
  row.keeps_output = cost.keeps_output;
  row.output_is_view = cost.output_is_view;
  row.passes_gradient = cost.passes_gradient;
  row.mixes_samples = cost.mixes_samples;
  row.parameters = layer.parameters;
  return row;
}

// The bytes of model inputs that are kept for backward, for one sample.
Bytes kept_model_input(const Model& model, const Layer& layer,
                       const LayerCost& cost) {
  Bytes bytes;
  for (std::size_t i = 0; i < layer.inputs.size(); ++i)
    if (layer.inputs[i].is_model_input() && cost.keeps_input[i])
      bytes += num_elements(shape_of(model, layer.inputs[i])) *
               size_of(type_of(model, layer.inputs[i]));
  return bytes;
}

}  // namespace

Profile profile_graph(const Model& model) {
  Profile profile;
  profile.model = model.name();
  for (const Parameter& parameter : model.parameters())
    profile.parameters.push_back(
        {parameter.name,
         num_elements(parameter.shape) * size_of(parameter.type)});
  for (std::size_t i = 0; i < model.layers().size(); ++i)
    profile.layers.push_back(profile_layer(model, LayerId(i)));
  return profile;
}

std::vector<LayerSizes> model_sizes(const Model& model, int microbatch) {
  std::vector<LayerSizes> rows;
  for (std::size_t i = 0; i < model.layers().size(); ++i) {
    const LayerCost cost = layer_cost(model, LayerId(i));
    const Bytes input = kept_model_input(model, model.layers()[i], cost);
    rows.push_back({cost.output.at(microbatch),
                    cost.keeps_private.at(microbatch) + input * microbatch,
                    Bytes(0), cost.carried.at(microbatch)});
  }
  return rows;
}

void leave_out_samples(const Model& model, Profile& profile) {
  if (profile.num_layers() != model.num_layers()) return;
  for (auto& [microbatch, sizes] : profile.sizes)
    for (std::size_t l = 0; l < sizes.size(); ++l) {
      const Layer& layer = model.layer(LayerId(l));
      sizes[l].keeps_private =
          layer_cost(model, LayerId(l)).keeps_private.at(microbatch);
      if (layer.kind == LayerKind::Flatten && layer.inputs[0].is_model_input())
        sizes[l].output = Bytes(0);
    }
}

Result<Profile> analytic_profile(const Model& model,
                                 std::span<const DeviceKind> kinds,
                                 std::span<const int> microbatches,
                                 const AnalyticOptions& options) {
  if (kinds.empty() || microbatches.empty())
    return bad_configuration(
        "an estimate needs a device kind and a microbatch size");
  Profile profile = profile_graph(model);
  profile.origin.source = "analytic";
  profile.origin.description = describe(kinds, options);
  const std::vector<Bytes> updated = updated_bytes(model, profile);
  for (int microbatch : microbatches) {
    if (microbatch < 1 || microbatch > kMaxMicrobatch)
      return bad_configuration(
          "the microbatch size is " + std::to_string(microbatch) +
          "; it must be between 1 and " + with_thousands(kMaxMicrobatch));
    profile.sizes[microbatch] = model_sizes(model, microbatch);
    for (const DeviceKind& kind : kinds)
      for (const bool on_chip : {false, true}) {
        if (on_chip && kind.on_chip_memory == Bytes(0)) continue;
        PIPEWRIGHT_TRY(auto rows, model_times(model, updated, kind, on_chip,
                                              microbatch, options));
        profile
            .times[on_chip ? on_chip_table(kind.name) : kind.name][microbatch] =
            std::move(rows);
      }
  }
  auto checked = profile.check("the estimate of " + model.name());
  if (!checked)
    return bad_configuration(checked.error().to_text(),
                             "try a smaller microbatch or model");
  return profile;
}

}  // namespace pipewright
