// pipewright export: a plan for another system, as the files that it takes.

#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/command.h"
#include "cli/export/exporter.h"
#include "pipewright/base/files.h"
#include "pipewright/base/text.h"

namespace pipewright::cli {
namespace {

constexpr PlanExporter kExporters[] = {{"torch", to_torch},
                                       {"megatron", to_megatron},
                                       {"deepspeed", to_deepspeed},
                                       {"torchtitan", to_torchtitan},
                                       {"json", to_plain_json}};

struct ExportOptions {
  std::string plan, profile, model, to, path;
  Output output;
};

std::vector<std::string> exporter_names() {
  std::vector<std::string> names;
  for (const PlanExporter& exporter : kExporters)
    names.push_back(exporter.name);
  return names;
}

Result<ExportedPlan> exported_plan(const ExportOptions& options) {
  for (const PlanExporter& exporter : kExporters) {
    if (exporter.name != options.to) continue;
    PIPEWRIGHT_TRY(
        const PlannedModel model,
        load_planned_model(options.plan, options.profile, options.model));
    return exporter.write(model);
  }
  const auto names = exporter_names();
  return bad_configuration("unknown system \"" + options.to + "\"",
                           suggestion(options.to, names));
}

// One file is written where -o says; several go into a folder of that name.
Result<std::vector<std::string>> write_exported(const ExportedPlan& plan,
                                                const std::string& path) {
  const bool is_folder =
      plan.files.size() > 1 || std::filesystem::is_directory(path);
  std::vector<std::string> written;
  if (is_folder) {
    std::error_code problem;
    std::filesystem::create_directories(path, problem);
    if (problem)
      return Error{ErrorCode::CannotCreate,
                   "the folder cannot be made: " + problem.message(),
                   path,
                   {},
                   {}};
  }
  for (const ExportedFile& file : plan.files) {
    written.push_back(
        is_folder ? (std::filesystem::path(path) / file.name).string() : path);
    if (auto fine = write_file(written.back(), file.text); !fine)
      return fine.error();
  }
  return written;
}

void print_exported(const ExportOptions& options, const ExportedPlan& plan,
                    const std::vector<std::string>& written) {
  if (!options.output.json) {
    for (const std::string& file : written)
      std::cout << "wrote " << file << "\n";
    if (written.empty()) std::cout << plan.files.front().text;
    return;
  }
  Json files = Json::object();
  for (const ExportedFile& file : plan.files) files.set(file.name, file.text);
  Json json = plan.facts;
  json.set("to", options.to).set("files", std::move(files));
  std::cout << json.to_text();
}

void run_export(const ExportOptions& options, Exit& exit) {
  const auto plan = exported_plan(options);
  if (!plan) return report(plan.error(), exit);
  std::vector<std::string> written;
  if (!options.path.empty()) {
    auto files = write_exported(*plan, options.path);
    if (!files) return report(files.error(), exit);
    written = *std::move(files);
  } else if (plan->files.size() > 1 && !options.output.json) {
    return report(
        bad_configuration(
            "--to " + options.to + " writes " +
                counted(static_cast<std::int64_t>(plan->files.size()), "file"),
            "name a folder for them: -o FOLDER"),
        exit);
  }
  print_exported(options, *plan, written);
}

}  // namespace

void add_export(CLI::App& app, Exit& exit) {
  CLI::App* command =
      app.add_subcommand("export", "Write a plan for another system");
  auto options = std::make_shared<ExportOptions>();
  command->add_option("PLAN", options->plan, "Plan file")->required();
  command
      ->add_option("--to", options->to,
                   "The system: " + join(exporter_names(), ", "))
      ->required();
  CLI::Option* profile = command->add_option(
      "--profile", options->profile, "Profile file that the plan was made for");
  command
      ->add_option("--model", options->model,
                   "Model that the plan is for; default: the plan's")
      ->excludes(profile);
  command->add_option("-o,--output", options->path,
                      "File, or folder if there are several; default: print");
  add_output_options(*command, options->output);
  command->callback([options, &exit] { run_export(*options, exit); });
}

}  // namespace pipewright::cli
