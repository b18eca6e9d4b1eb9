// Imports PipeDream's files as a profile and plans; pipedream_graph.h has the
// grammar.
//
// A source node whose description starts with "Input" has the time of loading
// data: it is dropped, and its bytes are what the first layers keep of the
// model's input. Backward is given as one number. What is kept for backward is
// not given: every layer is assumed to keep its inputs. "inplace" in a
// description means that the output overwrites the input.

#include <algorithm>
#include <map>

#include "pipewright/base/json_cursor.h"
#include "pipewright/base/text.h"
#include "pipewright/profile/formats/assembly.h"
#include "pipewright/profile/formats/import_usage.h"
#include "pipewright/profile/formats/importer.h"
#include "pipewright/profile/formats/pipedream_graph.h"

namespace pipewright {
namespace {

bool is_plan(const SourceFile& file) {
  return contains(file.text, "module_to_stage_map");
}

bool recognises_pipedream(const SourceFile& file) {
  return contains(file.text, "forward_compute_time=") || is_plan(file);
}

// "Conv2d(3, 64, ...)" -> "Conv2d".
std::string kind_of(const std::string& description) {
  return std::string(trim(description.substr(0, description.find('('))));
}

bool works_in_place(const std::string& description) {
  return contains(description, "inplace") &&
         !contains(description, "inplace=False");
}

// Which nodes only load data.
std::vector<bool> loads_data(const PipeDreamGraph& graph) {
  std::vector<bool> drops;
  for (const PipeDreamNode& node : graph.nodes)
    drops.push_back(node.description.rfind("Input", 0) == 0);
  for (const auto& [source, dest] : graph.edges) drops[dest] = false;
  return drops;
}

struct Sources {
  std::vector<int> nodes;
  double input_bytes = 0;  // from dropped nodes
  bool has_input = false;
};

std::vector<Sources> sources_of(const PipeDreamGraph& graph,
                                const std::vector<bool>& drops) {
  std::vector<Sources> sources(graph.nodes.size());
  for (const auto& [source, dest] : graph.edges) {
    Sources& of = sources[dest];
    if (drops[source]) {
      of.has_input = true;
      of.input_bytes += graph.nodes[source].activation_bytes;
    } else {
      of.nodes.push_back(source);
    }
  }
  return sources;
}

ProfileLayer layer_of(const PipeDreamNode& node, const Sources& sources,
                      const std::vector<LayerId>& layer_of_node) {
  ProfileLayer layer;
  layer.name = node.id;
  layer.kind = kind_of(node.description);
  for (int source : sources.nodes)
    layer.inputs.push_back(layer_of_node[source]);
  std::sort(layer.inputs.begin(), layer.inputs.end());
  layer.keeps_input.assign(layer.inputs.size(), true);
  layer.keeps_model_input = sources.has_input;
  layer.output_is_view =
      !layer.inputs.empty() && works_in_place(node.description);
  return layer;
}

// The stages given by stage_id, in layers of the profile.
Result<std::vector<PublishedStage>> stages_of(
    const PipeDreamGraph& graph, const std::vector<LayerId>& layer_of_node,
    const std::string& file) {
  std::map<int, PublishedStage> stages;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (layer_of_node[i].is_none()) continue;
    if (graph.nodes[i].stage < 0)
      return malformed("the node " + graph.nodes[i].id +
                           " has no stage_id, but other nodes have one",
                       file);
    stages[graph.nodes[i].stage].layers.push_back(layer_of_node[i].value);
  }
  std::vector<PublishedStage> list;
  for (auto& [id, stage] : stages) {
    std::sort(stage.layers.begin(), stage.layers.end());
    list.push_back(std::move(stage));
  }
  return list;
}

void add_pipedream_totals(const PipeDreamGraph& graph, Imported& imported) {
  imported.totals.nodes = static_cast<int>(graph.nodes.size());
  imported.totals.edges = static_cast<int>(graph.edges.size());
  for (const PipeDreamNode& node : graph.nodes) {
    imported.totals.forward += Seconds(node.forward_ms * 1e-3);
    imported.totals.backward += Seconds(node.backward_ms * 1e-3);
    imported.totals.parameters += whole_bytes(node.parameter_bytes);
  }
}

void add_drop_note(const PipeDreamGraph& graph, const std::vector<bool>& drops,
                   Imported& imported) {
  int count = 0;
  Seconds time;
  for (std::size_t i = 0; i < drops.size(); ++i) {
    if (!drops[i]) continue;
    ++count;
    time += Seconds(graph.nodes[i].forward_ms * 1e-3);
  }
  if (count > 0)
    imported.notes.push_back("dropped: " + std::to_string(count) +
                             (count > 1 ? " input nodes that load data ("
                                        : " input node that loads data (") +
                             to_text(time) + ")");
}

// "profiles/vgg16/graph.txt" -> "vgg16"; "bert-24-pbs-6.txt" is kept.
std::string model_name(const std::string& file) {
  auto parts = path_parts(file, 2);
  if (parts.size() == 2 && parts[1] == "graph.txt") return parts[0];
  std::string name = parts.empty() ? file : parts.back();
  return name.substr(0, name.rfind('.'));
}

Profile started_profile(const SourceFile& file, const ImportOptions& options) {
  Profile profile;
  profile.model = options.model.empty() ? model_name(file.name) : options.model;
  profile.origin.source = "pipedream";
  profile.origin.description = file.name;
  profile.origin.split_is_estimated = true;
  profile.origin.keeps_is_estimated = true;
  return profile;
}

Result<void> read_graph(const SourceFile& file, const ImportOptions& options,
                        Imported& imported) {
  PIPEWRIGHT_TRY(PipeDreamGraph graph,
                 parse_pipedream_graph(file.text, file.name));
  const int num_nodes = static_cast<int>(graph.nodes.size());
  const std::vector<int> order = topological_order(num_nodes, graph.edges);
  if (order.empty()) {
    const int at = node_on_cycle(num_nodes, graph.edges);
    return malformed("the edges form a cycle through " + graph.nodes[at].id,
                     file.name);
  }
  const std::vector<bool> drops = loads_data(graph);
  const std::vector<Sources> sources = sources_of(graph, drops);
  const int samples = std::max(1, options.samples);
  const std::string device = options.device.empty() ? "V100" : options.device;

  Profile profile = started_profile(file, options);
  std::vector<LayerId> layer_of_node(graph.nodes.size());
  auto& sizes = profile.sizes[samples];
  auto& times = profile.times[device][samples];
  bool has_stages = false;
  for (int n : order) {
    if (drops[n]) continue;
    const PipeDreamNode& node = graph.nodes[n];
    layer_of_node[n] =
        add_layer(profile, layer_of(node, sources[n], layer_of_node),
                  whole_bytes(node.parameter_bytes));
    const ProfileLayer& layer = profile.layers.back();
    sizes.push_back({whole_bytes(node.activation_bytes),
                     whole_bytes(sources[n].input_bytes), Bytes(0)});
    times.push_back(times_of(Seconds(node.forward_ms * 1e-3),
                             Seconds(node.backward_ms * 1e-3), layer));
    has_stages = has_stages || node.stage >= 0;
  }
  if (profile.layers.empty())
    return malformed("all nodes only load data", file.name);

  add_pipedream_totals(graph, imported);
  add_drop_note(graph, drops, imported);
  if (has_stages) {
    PublishedPlan plan;
    plan.source = file.name;
    plan.is_asynchronous = plan.rotates = true;
    PIPEWRIGHT_TRY(plan.stages, stages_of(graph, layer_of_node, file.name));
    imported.plans.push_back(std::move(plan));
  }
  imported.profile = std::move(profile);
  return {};
}

void note_assumptions(const ImportOptions& options, Imported& imported) {
  if (options.samples == 0)
    imported.notes.push_back(
        "assumed: the times are for a microbatch of 1 sample; the source does "
        "not say (set it with --samples N)");
  if (options.device.empty())
    imported.notes.push_back(
        "assumed: measured on V100, as PipeDream's published profiles are; the "
        "source does not say (set it with --device KIND)");
}

Result<Imported> read_pipedream(std::span<const SourceFile> files,
                                const ImportOptions& options) {
  Imported imported;
  for (const SourceFile& file : files) {
    if (is_plan(file)) {
      PIPEWRIGHT_TRY(PublishedPlan plan,
                     parse_pipedream_plan(file.text, file.name));
      imported.plans.push_back(std::move(plan));
      continue;
    }
    if (imported.profile)
      return bad_configuration("more than one layer graph: " + file.name,
                               "import one at a time");
    Result<void> done = read_graph(file, options, imported);
    if (!done) return done.error();
  }
  if (imported.profile) {
    imported.what = "layer graph";
    note_assumptions(options, imported);
  } else {
    imported.no_profile = "a runtime plan has no layer times";
  }
  if (!imported.plans.empty())
    imported.what += imported.what.empty() ? "plan" : " with plan";
  return imported;
}

std::string pipedream_usage(const SourceFile& file) {
  if (is_plan(file)) {
    if (auto plan = parse_pipedream_plan(file.text, file.name); !plan)
      return "it looks like a plan of PipeDream's runtime, but import cannot "
             "read it: " +
             plan.error().to_text();
    return printed_usage(file,
                         "its modules are not layers of a graph.txt; a "
                         "graph.txt with stage_id makes a plan");
  }
  if (contains(file.text, "stage_id="))
    return plan_usage(file, "--samples N --device KIND --on CLUSTER");
  return profile_usage(file, "--samples N --device KIND");
}

}  // namespace

Result<PublishedPlan> parse_pipedream_plan(std::string_view text,
                                           const std::string& file) {
  constexpr int kMaxWorkers = 1'000'000;
  PIPEWRIGHT_TRY(Json json, parse_json(text, file));
  JsonErrors errors(file);
  JsonCursor root(json, errors);
  PublishedPlan plan;
  plan.source = file;
  plan.is_asynchronous = plan.rotates = true;
  JsonCursor workers = root.at("stage_to_rank_map");
  const auto stages = workers.members();
  const int num_stages = static_cast<int>(stages.size());
  plan.stages.resize(stages.size());
  if (workers.exists() && num_stages == 0) workers.fail("no stages");
  for (const auto& [key, list] : stages) {
    auto id = parse_integer(key);
    if (!id || *id < 0 || *id >= num_stages) {
      list.fail("expected a stage from 0 to " + std::to_string(num_stages - 1) +
                ", found \"" + key + "\"");
      continue;
    }
    PublishedStage& stage = plan.stages[*id];
    for (const JsonCursor& worker : list.elements())
      stage.workers.push_back(static_cast<int>(worker.integer(0, kMaxWorkers)));
    stage.replicas = static_cast<int>(stage.workers.size());
    if (stage.replicas == 0) list.fail("expected at least one rank");
  }
  int module = 0;
  for (const JsonCursor& stage : root.at("module_to_stage_map").elements()) {
    const auto id = stage.integer(0, std::max(0, num_stages - 1));
    if (id < num_stages) plan.stages[id].layers.push_back(module);
    ++module;
  }
  if (JsonCursor depths = root.find("stage_to_depth_map"); depths.exists()) {
    plan.depths.assign(plan.stages.size(), -1);
    for (const auto& [key, depth] : depths.members()) {
      auto id = parse_integer(key);
      if (!id || *id < 0 || *id >= num_stages)
        depth.fail("unknown stage \"" + key + "\"");
      else
        plan.depths[*id] = static_cast<int>(depth.integer(0, kMaxWorkers));
    }
  }
  root.refuse_other_keys();
  if (!errors.empty()) return errors.error();
  return plan;
}

Importer pipedream_importer() {
  return {"pipedream",
          "layer graphs of PipeDream and DAPPLE (graph.txt), PipeDream's "
          "runtime plans (conf.json)",
          recognises_pipedream, read_pipedream, pipedream_usage};
}

}  // namespace pipewright
