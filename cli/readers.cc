#include "cli/readers.h"

#include "pipewright/base/json.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/cluster/cluster.h"
#include "pipewright/model/exported/exported_model.h"
#include "pipewright/model/model_file.h"
#include "pipewright/plan/gradient_buckets.h"
#include "pipewright/plan/lowering/versions_text.h"
#include "pipewright/plan/plan.h"
#include "pipewright/plan/runs_file.h"
#include "pipewright/plan/schedule/schedule.h"
#include "pipewright/plan/schedule/schedule_csv.h"
#include "pipewright/profile/analytic.h"
#include "pipewright/profile/formats/importer.h"
#include "pipewright/profile/profile.h"

namespace pipewright::cli {
namespace {

Result<std::string> read_json(std::string_view text, const std::string& file) {
  PIPEWRIGHT_TRY(Json json, parse_json(text, file));
  return "JSON of " +
         to_text(Bytes(static_cast<std::int64_t>(json.to_line().size())));
}

Result<std::string> read_model(std::string_view text, const std::string& file) {
  PIPEWRIGHT_TRY(Model model, parse_model(text, file));
  return "model " + model.name() + ": " + counted(model.num_layers(), "layer") +
         ", " + counted(model.num_parameters(), "parameter");
}

Result<std::string> read_exported(std::string_view text,
                                  const std::string& file) {
  PIPEWRIGHT_TRY(Model model, parse_exported(text, file));
  return "exported model " + model.name() + ": " +
         counted(model.num_layers(), "layer") + ", " +
         counted(model.num_parameters(), "parameter") + ", torch " +
         model.exported()->torch_version;
}

Result<std::string> read_cluster(std::string_view text,
                                 const std::string& file) {
  PIPEWRIGHT_TRY(Cluster cluster, parse_cluster(text, file));
  return "cluster " + cluster.name() + ": " +
         counted(cluster.num_devices(), "device");
}

Result<std::string> read_profile(std::string_view text,
                                 const std::string& file) {
  PIPEWRIGHT_TRY(Profile profile, parse_profile(text, file));
  std::vector<std::string> kinds;
  for (const auto& [kind, times] : profile.times) kinds.push_back(kind);
  return "profile of " + profile.model + ": " +
         counted(profile.num_layers(), "layer") + " on " + join(kinds, ", ");
}

Result<std::string> read_runs(std::string_view text, const std::string& file) {
  PIPEWRIGHT_TRY(const auto runs, parse_runs(text, file));
  return "runs: " +
         counted(static_cast<std::int64_t>(runs.size()), "measured step");
}

std::string summary(const Schedule& schedule, const std::string& stages) {
  return stages + ", " + counted(schedule.num_workers(), "worker") + ", " +
         counted(schedule.num_microbatches(), "microbatch");
}

std::string summary(const Schedule& schedule) {
  return summary(schedule, counted(schedule.num_stages(), "stage"));
}

// The plan's layers are those of its model, if that can be loaded here. A plan
// without a number type may be of a measured profile, which may have the name
// of a model but other layers.
Result<std::string> compared_with_model(const Plan& plan,
                                        const std::string& file) {
  const std::string not_compared = "; not compared with its model: ";
  const Result<Model> model = load_model(plan.model);
  if (!model) return not_compared + model.error().message;
  auto fine = check_plan(plan, profile_graph(*model));
  if (fine) return std::string();
  const std::string difference = fine.error().message;
  if (plan.number_type.empty())
    return not_compared + "the plan is of a profile, and " + plan.model +
           " has other layers here (" +
           difference.substr(0, difference.find(';')) + ")";
  Error error = fine.error();
  error.where = file + ": " + error.where;
  return error;
}

Result<std::string> read_plan(std::string_view text, const std::string& file) {
  PIPEWRIGHT_TRY(Plan plan, parse_plan(text, file));
  PIPEWRIGHT_TRY(const std::string compared, compared_with_model(plan, file));
  const std::string stale = staleness_text(staleness_of(plan));
  return "plan of " + plan.model + ": " +
         summary(plan.schedule, stage_count_text(plan)) +
         (stale.empty() ? "" : "; " + to_text(plan.method) + ": " + stale) +
         compared;
}

Result<std::string> read_schedule(std::string_view text,
                                  const std::string& file) {
  PIPEWRIGHT_TRY(Schedule schedule, Schedule::parse(text, file));
  return "schedule: " + summary(schedule);
}

Result<std::string> read_schedule_csv(std::string_view text,
                                      const std::string& file) {
  PIPEWRIGHT_TRY(CsvGrid grid, parse_csv(text, file));
  PIPEWRIGHT_TRY(Schedule schedule, schedule_of(grid, file));
  return "schedule: " + summary(schedule);
}

// Reads one file alone, with options for what the format may leave out.
template <Importer (*importer)()>
Result<std::string> read_import(std::string_view text,
                                const std::string& file) {
  const SourceFile source{file, std::string(text)};
  ImportOptions options;
  options.samples = 4;
  options.device = "V100";
  options.model = "toy";
  options.blocks = 4;
  PIPEWRIGHT_TRY(Imported imported,
                 importer().read(std::span(&source, 1), options));
  return imported.from + ": " + imported.what;
}

bool starts_like_json(std::string_view text) {
  text = trim(text);
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.substr(0, kByteOrderMark.size()) == kByteOrderMark)
    text.remove_prefix(kByteOrderMark.size());
  return text.empty() || text[0] == '{' || text[0] == '[' || text[0] == '/';
}

std::vector<std::string> formats() {
  std::vector<std::string> names;
  for (const Reader& reader : readers())
    if (!reader.format.empty()) names.push_back(reader.format);
  return names;
}

Result<const Reader*> reader_of_json(std::string_view text,
                                     const std::string& file) {
  PIPEWRIGHT_TRY(Json json, parse_json(text, file));
  const Json* format = json.find("format");
  const std::string* name = format ? format->if_string() : nullptr;
  if (!name)
    return malformed("missing key \"format\"",
                     file + ":" + std::to_string(json.line),
                     "one of " + join(formats(), ", "));
  for (const Reader& reader : readers())
    if (reader.format == *name) return &reader;
  return malformed("unknown format \"" + shortened(*name, 60) + "\"",
                   file + ":" + std::to_string(format->line) + ": format",
                   suggestion(*name, formats()));
}

}  // namespace

const std::vector<Reader>& readers() {
  static const std::vector<Reader> kReaders = {
      {"json", "", false, read_json},
      {"model", "pipewright/model", true, read_model},
      {"exported", "pipewright/exported", true, read_exported},
      {"cluster", "pipewright/cluster", true, read_cluster},
      {"profile", "pipewright/profile", true, read_profile},
      {"plan", "pipewright/plan", true, read_plan},
      {"runs", "pipewright/runs", true, read_runs},
      {"schedule", "", true, read_schedule},
      {"schedule-csv", "", true, read_schedule_csv},
      {"pipedream", "", false, read_import<pipedream_importer>},
      {"dnn-partitioning", "", false, read_import<dnn_partitioning_importer>},
      {"piper", "", false, read_import<piper_importer>},
      {"sailor", "", false, read_import<sailor_importer>},
      {"aceso", "", false, read_import<aceso_importer>},
      {"galvatron", "", false, read_import<galvatron_importer>},
  };
  return kReaders;
}

const Reader* reader_named(std::string_view name) {
  for (const Reader& reader : readers())
    if (reader.name == name) return &reader;
  return nullptr;
}

namespace {

bool is_of_run_folder(const std::string& file) {
  const std::string name = file.substr(file.find_last_of('/') + 1);
  for (const char* written : {"metrics.jsonl", "pieces.jsonl", "summary.json",
                              "predicted.json", "trace.json", "manifest.json"})
    if (name == written) return true;
  return false;
}

Result<const Reader*> reader_of_content(std::string_view text,
                                        const std::string& file) {
  if (starts_like_json(text) || file.ends_with(".json"))
    return reader_of_json(text, file);
  // Both forms of a schedule are lines of actions; ours starts with "schedule".
  const bool is_ours = trim(text).substr(0, 8) == "schedule";
  return reader_named(is_ours ? "schedule" : "schedule-csv");
}

}  // namespace

Result<const Reader*> reader_of(std::string_view text,
                                const std::string& file) {
  Result<const Reader*> reader = reader_of_content(text, file);
  if (reader || !is_of_run_folder(file)) return reader;
  return malformed(
      "this looks like a file of a run folder, which is not checked", file,
      "pipewright report RUN reads the whole folder");
}

}  // namespace pipewright::cli
