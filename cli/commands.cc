// The list of commands: a new one is one file and one line here.

#include "cli/commands.h"

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>

#include "cli/command.h"
#include "cli/help/described.h"
#include "cli/help/refusal.h"
#include "pipewright/base/text.h"

namespace pipewright::cli {
namespace {

void add_commands(CLI::App& app, Exit& exit) {
  add_schedule(app, exit);
  add_env(app, exit);
  add_models(app, exit);
  add_cluster(app, exit);
  add_import(app, exit);
  add_profile(app, exit);
  add_plan(app, exit);
  add_compare(app, exit);
  add_simulate(app, exit);
  add_report(app, exit);
  add_export(app, exit);
  add_serve(app, exit);
  add_calibrate(app, exit);
  add_train(app, exit);
  add_rehearse(app, exit);
  add_place(app, exit);
  add_validate(app, exit);
  add_completion(app, exit);
  add_man_page(app, exit);
}

// Commands check what they need; that a text is not empty and a number is
// finite holds for all of them.
std::string refuse_empty(const std::string& value) {
  return value.empty() ? "the value is empty" : "";
}

std::string refuse_not_finite(const std::string& value) {
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  return *end == '\0' && !std::isfinite(number)
             ? value + " is not a finite number"
             : "";
}

void check_values(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands({}))
    for (CLI::Option* option : command->get_options()) {
      if (option->get_items_expected_max() == 0) continue;  // a flag
      option->check(refuse_empty, "", "");
      if (option->get_type_name().starts_with("FLOAT"))
        option->check(refuse_not_finite, "", "");
    }
}

// The names of all commands, or of a command's options.
std::vector<std::string> names_in(const CLI::App& app) {
  std::vector<std::string> names;
  for (const DescribedCommand& command : commands_of(app))
    names.push_back(command.name);
  for (const DescribedOption& option : options_of(app))
    if (!option.is_positional)
      names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

// What nobody asked for, with the nearest name that somebody would understand.
int report_unexpected(const CLI::App& app) {
  const CLI::App* where = &command_in(app);
  const auto extras = app.remaining(true);
  const std::string first = extras.empty() ? "" : extras.front();
  const bool is_option = first.starts_with("-");
  const std::string name = first.substr(0, first.find('='));
  const std::string near = nearest_name(name, names_in(*where));
  const std::string help =
      "pipewright " + (where == &app ? "" : where->get_name() + " ") + "--help";
  say("pipewright: " + Error{ErrorCode::Usage,
                             (is_option       ? "unknown option \""
                              : where == &app ? "unknown command \""
                                              : "unexpected argument \"") +
                                 name + "\"",
                             {},
                             near.empty() || (where != &app && !is_option)
                                 ? help
                                 : "did you mean \"" + near + "\"? " + help,
                             {}}
                           .to_text());
  return static_cast<int>(ErrorCode::Usage);
}

// A full disk or a closed pipe behind standard output; an error before it
// counts.
int checked(int code) {
  errno = 0;
  std::cout.flush();
  if (std::cout) return code;
  // What failed may have been an earlier part, whose reason is lost.
  if (errno == 0 && ::write(STDOUT_FILENO, "\n", 1) == 1) errno = 0;
  say(std::string("pipewright: standard output cannot be written") +
      (errno != 0 ? std::string(": ") + std::strerror(errno) : ""));
  return code != 0 ? code : static_cast<int>(ErrorCode::CannotWrite);
}

}  // namespace

int run(int argc, char** argv) {
  CLI::App app{
      "Plans, simulates and runs pipeline-parallel training of deep "
      "neural networks"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "pipewright " PIPEWRIGHT_VERSION);
  Exit exit{0, argv};
  add_commands(app, exit);
  check_values(app);
  try {
    app.parse(argc, argv);
    return checked(exit.code);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return checked(app.exit(e));  // --help
    if (!app.remaining(true).empty()) return report_unexpected(app);
    report(refusal(app, e), exit);
    return exit.code;
  } catch (const std::exception& e) {
    say(std::string("pipewright: internal error: ") + e.what());
    return static_cast<int>(ErrorCode::Bug);
  }
}

}  // namespace pipewright::cli
