// pipewright validate: reads files and says what is wrong with each.

#include <algorithm>
#include <iostream>

#include "cli/command.h"
#include "cli/readers.h"
#include "pipewright/base/files.h"

namespace pipewright::cli {
namespace {

Result<std::string> read_any(const std::string& file) {
  PIPEWRIGHT_TRY(std::string text, read_file(file));
  PIPEWRIGHT_TRY(const Reader* reader, reader_of(text, file));
  return reader->read(text, file);
}

Json json_of(const Error& error) {
  Json json = Json::object();
  json.set("where", error.where);
  json.set("message", error.message);
  if (!error.hint.empty()) json.set("hint", error.hint);
  return json;
}

Json json_of(const std::string& file, const Result<std::string>& answer) {
  Json json = Json::object();
  json.set("file", file);
  json.set("ok", answer.ok());
  if (answer) return json.set("what", *answer);
  Json errors = Json::array();
  errors.push(json_of(answer.error()));
  for (const Error& other : answer.error().others) errors.push(json_of(other));
  json.set("code", static_cast<int>(answer.error().code));
  return json.set("errors", std::move(errors));
}

// Answers with the worst exit code: the largest.
int validate(const std::vector<std::string>& files, bool as_json) {
  int worst = 0;
  Json report = Json::array();
  for (const std::string& file : files) {
    const Result<std::string> answer = read_any(file);
    if (!answer) {
      worst = std::max(worst, static_cast<int>(answer.error().code));
      std::cerr << answer.error().to_text() << "\n";
    } else if (!as_json) {
      std::cout << file << ": ok, " << *answer << "\n";
    }
    if (as_json) report.push(json_of(file, answer));
  }
  if (as_json)
    std::cout << Json::object().set("files", std::move(report)).to_text();
  return worst;
}

}  // namespace

void add_validate(CLI::App& app, Exit& exit) {
  CLI::App* command = app.add_subcommand(
      "validate", "Any of our files, or a schedule: what is wrong with it");
  auto output = std::make_shared<Output>();
  auto files = std::make_shared<std::vector<std::string>>();
  add_output_options(*command, *output);
  command->add_option("files", *files, "Files to read")->required();
  command->callback([=, &exit] { exit.code = validate(*files, output->json); });
}

}  // namespace pipewright::cli
