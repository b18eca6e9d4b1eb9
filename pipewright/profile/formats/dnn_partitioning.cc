// Imports placement instances and expert splits of dnn-partitioning
// (placement.h), and makes a profile of an instance if possible.
//
// Latencies are taken as milliseconds: the layer graphs contain PipeDream's
// numbers unchanged. A training instance becomes a profile only if each forward
// node has at most one gradient node of its colour; otherwise the source does
// not say which gradient belongs to which node.

#include <algorithm>
#include <map>

#include "pipewright/base/json_cursor.h"
#include "pipewright/base/text.h"
#include "pipewright/profile/formats/assembly.h"
#include "pipewright/profile/formats/import_usage.h"
#include "pipewright/profile/formats/importer.h"

namespace pipewright {
namespace {

bool is_split(const SourceFile& file) {
  return contains(file.text, "\"fpgas\"") && contains(file.text, "\"cpus\"");
}

bool recognises_dnn_partitioning(const SourceFile& file) {
  return contains(file.text, "\"maxSizePerFPGA\"") ||
         contains(file.text, "\"fpgaLatency\"") || is_split(file);
}

// For each forward node the gradient node of its colour, or -1; empty, with the
// reason, if colours do not pair them.
struct Pairing {
  std::vector<int> gradient_of;
  std::string why_not;
};

Pairing paired(const PlacementInstance& instance) {
  struct Color {
    int forward = 0, backward = 0, last_backward = -1;
  };
  std::map<int, Color> colors;
  for (std::size_t i = 0; i < instance.nodes.size(); ++i) {
    const PlacementNode& node = instance.nodes[i];
    if (node.is_backward && node.color_class < 0)
      return {{},
              "the gradient node " + node.name +
                  " has no colour class, so its forward node is unknown"};
    Color& color = colors[node.color_class];
    ++(node.is_backward ? color.backward : color.forward);
    if (node.is_backward) color.last_backward = static_cast<int>(i);
  }
  Pairing pairing;
  for (const PlacementNode& node : instance.nodes) {
    const Color& color = colors[node.color_class];
    const bool has_gradient = node.color_class >= 0 && color.backward > 0;
    if (has_gradient && (color.forward != 1 || color.backward != 1))
      return {{},
              "colour class " + std::to_string(node.color_class) + " has " +
                  std::to_string(color.forward) + " forward and " +
                  std::to_string(color.backward) +
                  " gradient nodes, so they cannot be paired"};
    pairing.gradient_of.push_back(
        has_gradient && !node.is_backward ? color.last_backward : -1);
  }
  return pairing;
}

struct OutputBytes {
  std::vector<double> of_node;
  bool all_given = true;
};

OutputBytes output_bytes(const PlacementInstance& instance) {
  OutputBytes bytes{std::vector<double>(instance.nodes.size(), 0), true};
  for (const PlacementEdge& edge : instance.edges) {
    double& known = bytes.of_node[edge.source];
    known = std::max(known, edge.size);
    bytes.all_given = bytes.all_given && edge.size >= 0;
  }
  return bytes;
}

Seconds milliseconds(double ms) { return Seconds(ms * 1e-3); }

Profile profile_of(const PlacementInstance& instance, const Pairing& pairing,
                   const ImportOptions& options) {
  Profile profile;
  const int samples = std::max(1, options.samples);
  const std::string device =
      options.device.empty() ? "accelerator" : options.device;
  const OutputBytes outputs = output_bytes(instance);
  std::vector<std::vector<int>> sources(instance.nodes.size());
  for (const PlacementEdge& edge : instance.edges)
    sources[edge.dest].push_back(edge.source);
  std::vector<LayerId> layer_of(instance.nodes.size());
  const bool trains =
      std::any_of(pairing.gradient_of.begin(), pairing.gradient_of.end(),
                  [](int g) { return g >= 0; });
  auto& sizes = profile.sizes[samples];
  auto& on_device = profile.times[device][samples];
  auto& on_cpu = profile.times["instance-cpu"][samples];
  for (std::size_t i = 0; i < instance.nodes.size(); ++i) {
    const PlacementNode& node = instance.nodes[i];
    if (node.is_backward) continue;
    ProfileLayer layer;
    layer.name = node.name;
    layer.kind = "node";
    for (int source : sources[i])
      if (LayerId id = layer_of[source]; !id.is_none())
        layer.inputs.push_back(id);
    std::sort(layer.inputs.begin(), layer.inputs.end());
    layer.keeps_input.assign(layer.inputs.size(), false);
    layer_of[i] = add_layer(profile, std::move(layer), Bytes(0));
    const int g = pairing.gradient_of[i];
    const PlacementNode none;
    const PlacementNode& gradient = g >= 0 ? instance.nodes[g] : none;
    sizes.push_back({whole_bytes(outputs.of_node[i]),
                     whole_bytes(node.size + gradient.size), Bytes(0)});
    on_device.push_back(times_of(milliseconds(node.accelerator_latency),
                                 milliseconds(gradient.accelerator_latency),
                                 profile.layers.back()));
    on_cpu.push_back(times_of(milliseconds(node.cpu_latency),
                              milliseconds(gradient.cpu_latency),
                              profile.layers.back()));
  }
  profile.origin.split_is_estimated = trains;
  profile.origin.keeps_is_estimated = true;
  return profile;
}

void add_dnn_partitioning_totals(const PlacementInstance& instance,
                                 const ImportOptions& options,
                                 Imported& imported) {
  imported.totals.nodes = static_cast<int>(instance.nodes.size());
  imported.totals.edges = static_cast<int>(instance.edges.size());
  for (const PlacementNode& node : instance.nodes)
    (node.is_backward ? imported.totals.backward : imported.totals.forward) +=
        milliseconds(node.accelerator_latency);
  imported.devices = {
      {options.device.empty() ? "accelerator" : options.device,
       instance.max_accelerators,
       Bytes(static_cast<std::int64_t>(instance.max_size)), BytesPerSecond(0)},
      {"instance-cpu", instance.max_cpus, Bytes(0), BytesPerSecond(0)}};
}

void add_profile(const SourceFile& file, const ImportOptions& options,
                 Imported& imported) {
  const PlacementInstance& instance = *imported.placement;
  const Pairing pairing = paired(instance);
  imported.no_profile = pairing.why_not;
  if (!pairing.why_not.empty()) return;
  if (std::all_of(instance.nodes.begin(), instance.nodes.end(),
                  [](const PlacementNode& n) { return n.is_backward; })) {
    imported.no_profile = "every node is a gradient node";
    return;
  }
  Profile profile = profile_of(instance, pairing, options);
  auto name = path_parts(file.name, 1);
  profile.model = !options.model.empty() ? options.model
                  : name.empty()         ? file.name
                                 : name[0].substr(0, name[0].rfind('.'));
  profile.origin.source = "dnn-partitioning";
  profile.origin.description = file.name;
  imported.notes.push_back(
      "assumed: latencies are milliseconds, for a microbatch of " +
      std::to_string(std::max(1, options.samples)) +
      (options.samples > 1 ? " samples" : " sample"));
  imported.notes.push_back(
      "assumed: a node's size is what it keeps for backward; the source does "
      "not separate weights from it");
  if (!output_bytes(instance).all_given)
    imported.notes.push_back(
        "missing: some edges have no size; the outputs of their sources count "
        "as 0 bytes");
  imported.profile = std::move(profile);
}

Result<Imported> read_dnn_partitioning(std::span<const SourceFile> files,
                                       const ImportOptions& options) {
  Imported imported;
  for (const SourceFile& file : files) {
    if (is_split(file)) {
      PIPEWRIGHT_TRY(PlacementSplit split, parse_split(file.text, file.name));
      imported.splits.push_back(std::move(split));
      continue;
    }
    if (imported.placement)
      return bad_configuration("more than one instance: " + file.name,
                               "import one at a time");
    PIPEWRIGHT_TRY(imported.placement, parse_placement(file.text, file.name));
    add_dnn_partitioning_totals(*imported.placement, options, imported);
    add_profile(file, options, imported);
  }
  if (imported.placement)
    for (const PlacementSplit& split : imported.splits) {
      PIPEWRIGHT_TRY(std::vector<double> load,
                     loads(*imported.placement, split));
      imported.notes.push_back(
          "split: " + split.source + " has a maximum load of " +
          exact_text(
              load.empty() ? 0 : *std::max_element(load.begin(), load.end())));
    }
  else
    imported.no_profile = "a split has no latencies";
  imported.what = imported.placement ? "placement instance" : "split";
  if (imported.placement && !imported.splits.empty())
    imported.what += " and split";
  return imported;
}

std::string dnn_partitioning_usage(const SourceFile& file) {
  if (is_split(file))
    return printed_usage(file, "a split needs its instance beside it");
  return "it has no plan; pipewright place " + file.name + " solves it";
}

}  // namespace

Importer dnn_partitioning_importer() {
  return {"dnn-partitioning",
          "placement instances and expert splits of dnn-partitioning",
          recognises_dnn_partitioning, read_dnn_partitioning,
          dnn_partitioning_usage};
}

}  // namespace pipewright
