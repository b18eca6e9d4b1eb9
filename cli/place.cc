// pipewright place: solves a placement instance (docs/place.md). The split into
// stages of a pipeline is exact; --any-set improves it with other sets of
// nodes.

#include <algorithm>
#include <chrono>
#include <iostream>
#include <optional>

#include "cli/command.h"
#include "pipewright/base/files.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/planners/exact/exact_any_set.h"

namespace pipewright::cli {
namespace {

struct Settings {
  std::string file;
  bool any_set = false;
  Output format;
};

struct Placed {
  PlacementInstance instance;
  std::size_t groups = 0;
  ChainSolution chain;
  PlacementSplit split;
  std::optional<AnySetSolution> any;
  double seconds = 0;  // of both searches
};

Result<Placed> solve(const Settings& settings) {
  PIPEWRIGHT_TRY(const std::string text, read_file(settings.file));
  Placed placed;
  PIPEWRIGHT_TRY(placed.instance, parse_placement(text, settings.file));
  const auto start = std::chrono::steady_clock::now();
  const GroupedInstance groups = grouped(placed.instance);
  placed.groups = groups.groups.size();
  PIPEWRIGHT_TRY(placed.chain, best_chain(groups.problem));
  placed.split = split_of(placed.instance, groups, placed.chain.parts);
  if (settings.any_set) {
    PIPEWRIGHT_TRY(placed.any, any_set(placed.instance, placed.split));
    placed.split = placed.any->split;
  }
  placed.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  return placed;
}

double load_of(const Placed& placed) {
  return placed.any ? placed.any->load : placed.chain.load;
}

double bound_of(const Placed& placed) {
  return placed.any ? placed.any->lower_bound : placed.chain.lower_bound;
}

double gap_of(const Placed& placed) {
  return bound_of(placed) > 0 ? load_of(placed) / bound_of(placed) - 1 : 0;
}

Json json_of(const std::vector<PlacementPart>& parts) {
  Json list = Json::array();
  for (const PlacementPart& part : parts) {
    Json nodes = Json::array();
    for (int id : part.node_ids) nodes.push(id);
    Json row = Json::object();
    row.set("load", part.load);
    row.set("nodes", std::move(nodes));
    list.push(std::move(row));
  }
  return list;
}

Json json_of(const Placed& placed) {
  Json json = Json::object();
  json.set("max_load", load_of(placed));
  json.set("lower_bound", bound_of(placed));
  json.set("proven", placed.chain.proven && !placed.any);
  json.set("best_chain", placed.chain.load);
  json.set("best_chain_proven", placed.chain.proven);
  json.set("nodes", static_cast<std::int64_t>(placed.instance.nodes.size()));
  json.set("groups", static_cast<std::int64_t>(placed.groups));
  json.set("downsets", placed.chain.downsets);
  json.set("planning_seconds", placed.seconds);
  json.set("accelerators", json_of(placed.split.accelerators));
  json.set("cpus", json_of(placed.split.cpus));
  return json;
}

double part_size(const Placed& placed, const PlacementPart& part) {
  double size = 0;
  for (const PlacementNode& node : placed.instance.nodes)
    if (std::binary_search(part.node_ids.begin(), part.node_ids.end(), node.id))
      size += node.size;
  return size;
}

void print_parts(const Placed& placed, int width) {
  TextTable table({{"device", TextTable::Align::Left},
                   {"load", TextTable::Align::Right},
                   {"nodes", TextTable::Align::Right},
                   {"size", TextTable::Align::Right},
                   {"node ids", TextTable::Align::Left}});
  const auto add = [&](const std::vector<PlacementPart>& parts,
                       const std::string& kind) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      std::vector<std::string> ids;
      for (int id : parts[i].node_ids) ids.push_back(std::to_string(id));
      table.add_row({kind + " " + std::to_string(i), to_text(parts[i].load, 8),
                     std::to_string(ids.size()),
                     to_text(Bytes(static_cast<std::int64_t>(
                         part_size(placed, parts[i])))),
                     join(ids, " ")});
    }
  };
  add(placed.split.accelerators, "accelerator");
  add(placed.split.cpus, "CPU");
  std::cout << table.to_text(width);
}

void print_placement(const Placed& placed, int width) {
  const PlacementInstance& instance = placed.instance;
  std::cout << instance.nodes.size() << " nodes in " << placed.groups
            << " groups, " << instance.edges.size()
            << " edges; accelerators: " << instance.max_accelerators
            << ", CPUs: " << instance.max_cpus << "\n\n";
  print_parts(placed, width);
  std::cout << "\nmaximum load as a pipeline: "
            << to_text(placed.chain.load, 10)
            << (placed.chain.proven
                    ? " (proven optimal)"
                    : " (not proven; lower bound " +
                          to_text(placed.chain.lower_bound, 10) + ")")
            << "\n";
  if (placed.any)
    std::cout << "maximum load with any sets of nodes: "
              << to_text(placed.any->load, 10) << ", at most "
              << to_text(100 * gap_of(placed)) << " % above the optimum (lower "
              << "bound " << to_text(placed.any->lower_bound, 10) << ")\n";
  std::cout << "time: " << to_text(Seconds(placed.seconds)) << ", "
            << with_thousands(placed.chain.downsets) << " downsets searched\n";
}

void run_place(const Settings& settings, Exit& exit) {
  const Result<Placed> placed = solve(settings);
  if (!placed) return report(placed.error(), exit);
  if (settings.format.json)
    std::cout << json_of(*placed).to_text();
  else
    print_placement(*placed, settings.format.width);
}

}  // namespace

void add_place(CLI::App& app, Exit& exit) {
  CLI::App* command = app.add_subcommand(
      "place", "Solve a device placement instance of dnn-partitioning exactly");
  auto settings = std::make_shared<Settings>();
  command
      ->add_option("INSTANCE", settings->file,
                   "Instance file of dnn-partitioning (docs/place.md)")
      ->required();
  command->add_flag("--any-set", settings->any_set,
                    "Also try sets of nodes that do not form a pipeline (a "
                    "heuristic; prints its distance to a lower bound)");
  add_output_options(*command, settings->format);
  command->callback([settings, &exit] { run_place(*settings, exit); });
}

}  // namespace pipewright::cli
