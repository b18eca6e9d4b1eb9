// pipewright import: reads profiles, placement instances, network measurements
// and plans of other systems, prints a summary, and writes a profile, a plan
// and a cluster.

#include <iostream>
#include <optional>

#include "cli/command.h"
#include "cli/import/imported_json.h"
#include "cli/import/published_run.h"
#include "cli/number_in.h"
#include "pipewright/base/files.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/profile/formats/assembly.h"
#include "pipewright/profile/formats/importer.h"
#include "pipewright/profile/profile_table.h"

namespace pipewright::cli {
namespace {

struct ImportSettings {
  std::vector<std::string> files;
  std::string from;
  std::string output, plan, cluster;  // files to write
  std::string on;                     // the cluster of the plan
  int minibatch = 0;
  std::string time_unit;
  ImportOptions options;
  Output format;
};

void print_imported(const Profile& profile, const SourceTotals& source,
                    std::ostream& out, int width) {
  const int edges = totals_of(profile, "", 0).edges;
  out << "model: " << profile.model << "\n";
  out << "layers: " << with_thousands(profile.num_layers())
      << ", edges: " << with_thousands(edges);
  if (source.nodes != profile.num_layers() || source.edges != edges)
    out << " (in the source: " << with_thousands(source.nodes) << " nodes, "
        << with_thousands(source.edges) << " edges)";
  out << "\nparameters: " << to_text(profile.parameter_bytes()) << "\n\n";
  using Align = TextTable::Align;
  TextTable table({{"device", Align::Left},
                   {"microbatch", Align::Right},
                   {"forward", Align::Right},
                   {"backward", Align::Right},
                   {"update", Align::Right},
                   {"outputs", Align::Right}});
  for (const auto& [kind, tables] : profile.times)
    for (const auto& [microbatch, rows] : tables) {
      const ProfileTotals totals = totals_of(profile, kind, microbatch);
      Bytes outputs;
      if (auto sizes = profile.sizes.find(microbatch);
          sizes != profile.sizes.end())
        for (const LayerSizes& row : sizes->second) outputs += row.output;
      table.add_row({kind, std::to_string(microbatch), to_text(totals.forward),
                     to_text(totals.backward), to_text(totals.update),
                     to_text(outputs)});
    }
  out << table.to_text(width);
  for (const auto& [kind, tables] : profile.times)
    out << interpolation_text(profile, kind);
  for (const std::string& what : estimates(profile))
    out << "estimated: " << what << "\n";
}

std::string rate_text(const BandwidthTable& table, std::int64_t bytes) {
  auto rate = rate_at(table, Bytes(bytes));
  return rate ? to_text(*rate) : "-";
}

void print_imported(const std::vector<BandwidthTable>& tables,
                    std::ostream& out, int width) {
  constexpr std::size_t kMaxRows = 24;
  using Align = TextTable::Align;
  TextTable text({{"operation", Align::Left},
                  {"from", Align::Left},
                  {"to", Align::Left},
                  {"devices", Align::Right},
                  {"1 MB", Align::Right},
                  {"100 MB", Align::Right}});
  for (std::size_t i = 0; i < tables.size() && i < kMaxRows; ++i) {
    const BandwidthTable& table = tables[i];
    text.add_row({table.operation, table.from, table.to,
                  std::to_string(table.devices), rate_text(table, 1'000'000),
                  rate_text(table, 100'000'000)});
  }
  out << "\n" << text.to_text(width);
  if (tables.size() > kMaxRows)
    out << "and " << tables.size() - kMaxRows << " more (--json lists them)\n";
}

void print_imported(const PublishedPlan& plan, std::ostream& out) {
  std::vector<std::string> replicas;
  for (const PublishedStage& stage : plan.stages)
    if (stage.replicas > 0) replicas.push_back(std::to_string(stage.replicas));
  out << "plan: " << plan.source << ": "
      << counted(std::ssize(plan.stages), "stage");
  if (!replicas.empty()) out << ", replicas " << join(replicas, "-");
  if (plan.minibatch > 0) out << ", minibatch " << plan.minibatch;
  if (plan.measured_step)
    out << ", measured " << to_text(*plan.measured_step) << " per step";
  if (plan.measured_memory)
    out << " and " << to_text(*plan.measured_memory)
        << " on the device with the most memory in use";
  out << "\n";
}

void print_imported(const Imported& imported, std::size_t num_files,
                    std::ostream& out, int width) {
  out << "recognised: " << imported.from << ", " << imported.what << " ("
      << counted(std::int64_t(num_files), "file") << ")\n";
  if (imported.profile) {
    print_imported(*imported.profile, imported.totals, out, width);
  } else {
    if (imported.totals.nodes > 0)
      out << "nodes: " << with_thousands(imported.totals.nodes)
          << ", edges: " << with_thousands(imported.totals.edges) << "\n";
    out << "no profile: " << imported.no_profile << "\n";
  }
  for (const ImportedDevices& device : imported.devices) {
    out << "devices: " << device.count << " x " << device.kind;
    if (device.memory > Bytes(0))
      out << " with " << to_text(device.memory) << " each";
    if (device.bandwidth > BytesPerSecond(0))
      out << ", " << to_text(device.bandwidth) << " between each pair";
    out << "\n";
  }
  if (!imported.bandwidths.empty())
    print_imported(imported.bandwidths, out, width);
  for (const PublishedPlan& plan : imported.plans) print_imported(plan, out);
  for (const std::string& note : imported.notes) out << note << "\n";
}

// 0: not given.
Seconds unit_named(const std::string& name) {
  return Seconds(name == "us" ? 1e-6 : name == "ms" ? 1e-3 : name == "s");
}

Result<Imported> imported_from(const ImportSettings& settings) {
  std::vector<SourceFile> sources;
  for (const std::string& file : settings.files) {
    PIPEWRIGHT_TRY(std::string text, read_file(file));
    sources.push_back({file, std::move(text)});
  }
  ImportOptions options = settings.options;
  options.time_unit = unit_named(settings.time_unit);
  return import_files(sources, settings.from, options);
}

Result<void> write_profile(const Imported& imported, const std::string& path) {
  if (!imported.profile)
    return bad_configuration(
        "no profile to write to " + path + ": " + imported.no_profile,
        "without -o, import prints what the files contain");
  return write_file(path, to_text(*imported.profile));
}

// Nothing is written unless everything can be. Adds what the plan and the
// cluster drop of the source to the notes.
Result<void> write_imported(Imported& imported,
                            const ImportSettings& settings) {
  std::optional<PublishedRun> run;
  if (!settings.plan.empty() || !settings.cluster.empty()) {
    PIPEWRIGHT_TRY(run,
                   published_run(imported, settings.on, settings.minibatch));
    imported.notes.insert(imported.notes.end(), run->notes.begin(),
                          run->notes.end());
    if (!settings.plan.empty() && !run->plan)
      return bad_configuration("no plan to write to " + settings.plan +
                               ": the files have none");
  }
  if (!settings.output.empty())
    if (auto done = write_profile(imported, settings.output); !done)
      return done;
  if (!settings.plan.empty())
    if (auto done = write_file(settings.plan, to_json(*run->plan).to_text());
        !done)
      return done;
  if (settings.cluster.empty()) return {};
  return write_file(settings.cluster, to_text(run->cluster));
}

Json file_json(const std::string& file) {
  return file.empty() ? Json() : Json(file);
}

void run_import(const ImportSettings& settings, Exit& exit) {
  Result<Imported> imported = imported_from(settings);
  if (!imported) return report(imported.error(), exit);
  if (auto done = write_imported(*imported, settings); !done)
    return report(done.error(), exit);
  if (settings.format.json) {
    Json json = imported_json(*imported);
    json.set("written", file_json(settings.output));
    json.set("written_plan", file_json(settings.plan));
    json.set("written_cluster", file_json(settings.cluster));
    std::cout << json.to_text();
    return;
  }
  print_imported(*imported, settings.files.size(), std::cout,
                 settings.format.width);
  for (const std::string* file :
       {&settings.output, &settings.plan, &settings.cluster})
    if (!file->empty()) std::cout << "wrote " << *file << "\n";
  if (settings.output.empty() && imported->profile)
    std::cout << "nothing written; use -o FILE to write the profile\n";
}

std::string formats_help() {
  std::string text = "Format of the files (default: recognised by content):";
  for (const Importer& importer : importers())
    text += "\n" + importer.name + ": " + importer.reads;
  return text;
}

}  // namespace

void add_import(CLI::App& app, Exit& exit) {
  CLI::App* command = app.add_subcommand(
      "import",
      "Import profiles, plans and placement instances of other systems");
  auto settings = std::make_shared<ImportSettings>();
  ImportOptions& options = settings->options;
  command
      ->add_option("FILE", settings->files, "One or more files of one format")
      ->required();
  command->add_option("-o,--output", settings->output,
                      "Write the profile to this file");
  command->add_option("--plan", settings->plan, "Write the plan to this file");
  command->add_option("--cluster", settings->cluster,
                      "Write the cluster that the plan ran on to this file");
  command->add_option("--on", settings->on,
                      "Cluster of the plan, if the source describes none; as "
                      "for other commands, or a cluster file");
  command
      ->add_option("--minibatch", settings->minibatch,
                   "Samples per step, if the source does not say")
      ->check(integer_in(1, kMaxMicrobatch));
  command->add_option("--from", settings->from, formats_help());
  command
      ->add_option("--samples", options.samples,
                   "Samples of the microbatch that the times are for, if the "
                   "source does not say")
      ->check(integer_in(1, kMaxMicrobatch));
  command->add_option("--device", options.device,
                      "Kind of device that the times are for");
  command->add_option("--model", options.model, "Name of the model");
  command
      ->add_option("--tensor-parallel", options.tensor_parallel,
                   "Tensor-parallel degree, if the source has several")
      ->check(integer_in(1, 1 << 20));
  command
      ->add_option("--sequence", options.sequence,
                   "Sequence length, if the source has several")
      ->check(integer_in(1, 1 << 20));
  command
      ->add_option("--blocks", options.blocks,
                   "How often the model repeats the block that the source "
                   "lists once")
      ->check(integer_in(1, kMaxLayers));
  command
      ->add_option("--time-unit", settings->time_unit,
                   "Unit of the times, if the source does not say (Piper); "
                   "default: s")
      ->check(CLI::IsMember({"s", "ms", "us"}));
  command->add_option("--note", options.note,
                      "Text to add to the profile's origin");
  add_output_options(*command, settings->format);
  command->callback([settings, &exit] { run_import(*settings, exit); });
}

}  // namespace pipewright::cli
