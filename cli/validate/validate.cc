// pipewright validate: reads files and reports what is wrong with each. With a
// cluster, it also proves that each plan can run there: no deadlock, no missing
// link, and enough memory whatever the timing.

#include <algorithm>
#include <iostream>

#include "cli/command.h"
#include "cli/readers.h"
#include "cli/simulate/lowered_plan.h"
#include "cli/validate/memory_proof.h"
#include "pipewright/base/files.h"
#include "pipewright/base/text.h"
#include "pipewright/cluster/cluster_table.h"

namespace pipewright::cli {
namespace {

// The note on memory as statements of the answer.
std::string memory_statements(const Cluster& cluster) {
  const std::string note = memory_note(cluster);
  std::string text;
  for (const std::string_view line : split(note, '\n'))
    if (!line.empty()) text.append("; ").append(line);
  return text;
}

Result<std::string> proof(const std::string& file, const PlanInputs& inputs) {
  PIPEWRIGHT_TRY(const LoweredPlan lowered, load_lowered(file, inputs));
  PIPEWRIGHT_TRY(const std::vector<Bytes> limits,
                 device_memory(lowered.program, lowered.cluster));
  const auto memory = memory_proof(lowered.program, limits);
  if (!memory) return in_file(file, memory.error());
  return "; runs on " + lowered.cluster.name() + ": " + *memory +
         memory_statements(lowered.cluster);
}

Result<std::string> read_any(const std::string& file,
                             const PlanInputs& inputs) {
  PIPEWRIGHT_TRY(std::string text, read_file(file));
  PIPEWRIGHT_TRY(const Reader* reader, reader_of(text, file));
  PIPEWRIGHT_TRY(std::string what, reader->read(text, file));
  if (inputs.cluster.empty() || reader->name != "plan") return what;
  const Result<std::string> proved = proof(file, inputs);
  if (!proved) return proved.error();
  return what + *proved;
}

Json verdict_json(const Error& error) {
  Json json = Json::object();
  json.set("where", error.where);
  json.set("message", error.message);
  if (!error.hint.empty()) json.set("hint", error.hint);
  return json;
}

Json verdict_json(const std::string& file, const Result<std::string>& answer) {
  Json json = Json::object();
  json.set("file", file);
  json.set("ok", answer.ok());
  if (answer) return json.set("what", *answer);
  Json errors = Json::array();
  errors.push(verdict_json(answer.error()));
  for (const Error& other : answer.error().others)
    errors.push(verdict_json(other));
  json.set("code", static_cast<int>(answer.error().code));
  return json.set("errors", std::move(errors));
}

// One statement per line: together they are longer than a terminal is wide.
std::string in_lines(std::string text) {
  for (std::size_t at = 0; (at = text.find("; ", at)) != std::string::npos;)
    text.replace(at, 2, "\n  ");
  return text;
}

// Returns the largest exit code.
int validate_files(const std::vector<std::string>& files,
                   const PlanInputs& inputs, bool as_json) {
  int worst = 0;
  Json report = Json::array();
  for (const std::string& file : files) {
    const Result<std::string> answer = read_any(file, inputs);
    if (!answer) {
      worst = std::max(worst, static_cast<int>(answer.error().code));
      say(answer.error().to_text());
    } else if (!as_json) {
      std::cout << file << ": ok, " << in_lines(*answer) << "\n";
    }
    if (as_json) report.push(verdict_json(file, answer));
  }
  if (as_json)
    std::cout << Json::object().set("files", std::move(report)).to_text();
  return worst;
}

}  // namespace

void add_validate(CLI::App& app, Exit& exit) {
  CLI::App* command = app.add_subcommand(
      "validate", "Check files: models, clusters, profiles, plans, schedules");
  auto output = std::make_shared<Output>();
  auto files = std::make_shared<std::vector<std::string>>();
  auto inputs = std::make_shared<PlanInputs>();
  command->add_option("FILE", *files, "Files to check")->required();
  CLI::Option* cluster = command->add_option(
      "--cluster", inputs->cluster,
      "Also prove that plans can run on this cluster, including "
      "memory");
  CLI::Option* profile = command
                             ->add_option("--profile", inputs->profile,
                                          "Profile file with the costs")
                             ->needs(cluster);
  command
      ->add_option("--model", inputs->model,
                   "Model whose costs are estimated; default: the plan's")
      ->needs(cluster)
      ->excludes(profile);
  add_output_options(*command, *output);
  command->callback([=, &exit] {
    exit.code = validate_files(*files, *inputs, output->json);
  });
}

}  // namespace pipewright::cli
