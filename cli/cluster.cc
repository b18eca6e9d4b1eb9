// pipewright cluster: the devices and links of a cluster, as a table or a file.

#include "pipewright/cluster/cluster.h"

#include <iostream>

#include "cli/command.h"
#include "pipewright/base/files.h"
#include "pipewright/cluster/cluster_table.h"
#include "pipewright/cluster/presets.h"
#include "pipewright/cluster/this_machine_links.h"

namespace pipewright::cli {
namespace {

struct ClusterOptions {
  std::string cluster;
  std::string file;
  bool measure = false;
  Output output;
};

Result<Cluster> chosen_cluster(const ClusterOptions& options) {
  PIPEWRIGHT_TRY(Cluster cluster, load_cluster(options.cluster));
  if (!options.measure) return cluster;
  return with_measured_links(cluster);
}

Json presets_json() {
  Json kinds = Json::array(), links = Json::array();
  for (const KindPreset& preset : kind_presets()) {
    Json kind = preset.is_this_machine
                    ? Json::object().set("name", preset.kind.name)
                    : to_json(preset.kind);
    kind.set("default_link", preset.default_link);
    kinds.push(std::move(kind));
  }
  for (const LinkPreset& preset : link_presets())
    links.push(Json::object()
                   .set("name", preset.name)
                   .set("bandwidth", preset.link.bandwidth.value())
                   .set("latency", preset.link.latency.value())
                   .set("source", preset.source));
  return Json::object()
      .set("kinds", std::move(kinds))
      .set("links", std::move(links));
}

void show_presets(const ClusterOptions& options, Exit& exit) {
  if (!options.file.empty())
    return report({ErrorCode::Usage,
                   "no cluster given",
                   {},
                   "for example 2x4xV100@nvlink/10GbE, or a cluster file",
                   {}},
                  exit);
  std::cout << (options.output.json ? presets_json().to_text()
                                    : presets_table(options.output.width));
}

void show_cluster(const ClusterOptions& options, Exit& exit) {
  if (options.cluster.empty()) return show_presets(options, exit);
  const auto cluster = chosen_cluster(options);
  if (!cluster) return report(cluster.error(), exit);
  if (!options.file.empty()) {
    auto written = write_file(options.file, to_text(*cluster));
    if (!written) return report(written.error(), exit);
    std::cerr << "wrote " << options.file << "\n";
  }
  std::cout << (options.output.json
                    ? to_text(*cluster)
                    : cluster_table(*cluster, options.output.width));
}

}  // namespace

void add_cluster(CLI::App& app, Exit& exit) {
  CLI::App* command =
      app.add_subcommand("cluster", "Show the devices and links of a cluster");
  auto options = std::make_shared<ClusterOptions>();
  command->add_option(
      "CLUSTER", options->cluster,
      "[HOSTSx]COUNTxKIND[+[HOSTSx]COUNTxKIND...][@LINK][/LINK]: 4xcpu; "
      "2x8xV100@nvlink/10GbE, two hosts; 4xV100+4xT4@pcie3, one host; "
      "1x4xV100+1x4xT4@pcie3/10GbE, two hosts; here, this machine's GPUs or "
      "cores; or a cluster file. Without it, list the known device kinds and "
      "links");
  command->add_flag("--measure", options->measure,
                    "Measures the links between GPUs of this machine, by size");
  command->add_option("-o,--output", options->file,
                      "Write the cluster to this file");
  add_output_options(*command, options->output);
  command->callback([options, &exit] { show_cluster(*options, exit); });
}

}  // namespace pipewright::cli
