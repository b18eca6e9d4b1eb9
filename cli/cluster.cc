// pipewright cluster: the devices and links of a cluster, as a table or a file.

#include "pipewright/cluster/cluster.h"

#include <iostream>

#include "cli/command.h"
#include "pipewright/base/files.h"
#include "pipewright/cluster/cluster_table.h"

namespace pipewright::cli {
namespace {

struct ClusterOptions {
  std::string cluster;
  std::string file;
  Output output;
};

void show_cluster(const ClusterOptions& options, Exit& exit) {
  if (options.cluster.empty()) {
    if (options.output.json || !options.file.empty())
      return report({ErrorCode::Usage,
                     "no cluster given",
                     {},
                     "for example 2x4xV100@nvlink/10GbE, or a cluster file",
                     {}},
                    exit);
    std::cout << presets_table(options.output.width);
    return;
  }
  const auto cluster = load_cluster(options.cluster);
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
      "[HOSTSx]COUNTxKIND[+COUNTxKIND...][@LINK][/LINK], for "
      "example 4xcpu or 2x8xV100@nvlink/10GbE, or a cluster "
      "file. Without it, list the known device kinds and links");
  command->add_option("-o,--output", options->file,
                      "Write the cluster to this file");
  add_output_options(*command, options->output);
  command->callback([options, &exit] { show_cluster(*options, exit); });
}

}  // namespace pipewright::cli
