// The list of commands: a new one is one file and one line here.

#include "cli/commands.h"

#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <limits>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/help/described.h"
#include "cli/help/help_order.h"
#include "cli/help/refusal.h"
#include "pipewright/base/text.h"

namespace pipewright::cli {
namespace {

// In the order of the help: what most people use comes first.
void add_commands(CLI::App& app, Exit& exit) {
  add_plan(app, exit);
  add_compare(app, exit);
  add_simulate(app, exit);
  add_train(app, exit);
  add_profile(app, exit);
  add_report(app, exit);
  add_serve(app, exit);
  add_models(app, exit);
  add_cluster(app, exit);
  add_schedule(app, exit);
  add_validate(app, exit);
  add_export(app, exit);
  add_import(app, exit);
  add_calibrate(app, exit);
  add_rehearse(app, exit);
  add_place(app, exit);
  add_env(app, exit);
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

// The parser would take 010 for eight, 0x10 for sixteen, and both -1 and 2^64
// for the largest number without a sign.
template <typename Number>
std::string refuse_not_whole(const std::string& value) {
  Number number = 0;
  const char* const end = value.data() + value.size();
  const auto read = std::from_chars(value.data(), end, number);
  if (read.ec == std::errc() && read.ptr == end) return "";
  const bool has_sign = std::numeric_limits<Number>::is_signed;
  return std::string(has_sign ? "expected an integer"
                              : "expected an integer from 0 to 2^64 - 1") +
         ", found \"" + printable(value) + "\"";
}

std::string without_leading_zeros(std::string value) {
  const std::size_t first = value.starts_with('-') ? 1 : 0;
  while (value.size() > first + 1 && value[first] == '0' &&
         std::isdigit(static_cast<unsigned char>(value[first + 1])))
    value.erase(first, 1);
  return value;
}

void check_number(CLI::Option& option) {
  const std::string type = option.get_type_name();
  const bool is_integer = type.starts_with("INT");
  const bool is_unsigned = type.starts_with("UINT");
  if (type.starts_with("FLOAT")) option.check(refuse_not_finite, "", "");
  if (is_integer) option.check(refuse_not_whole<std::int64_t>, "", "");
  if (is_unsigned) option.check(refuse_not_whole<std::uint64_t>, "", "");
  if (is_integer || is_unsigned)
    option.transform(without_leading_zeros, "", "");
}

void check_values(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands({}))
    for (CLI::Option* option : command->get_options()) {
      if (option->get_items_expected_max() == 0) continue;  // a flag
      option->check(refuse_empty, "", "");
      check_number(*option);
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

// Of options only what follows the dashes counts; a letter is near any other.
std::string nearest_option(const std::string& name, const CLI::App& app) {
  std::vector<std::string> words;
  for (const std::string& known : names_in(app))
    if (known.starts_with("--")) words.push_back(known.substr(2));
  if (!name.starts_with("--")) return "";
  const std::string near = nearest_name(name.substr(2), words);
  return near.empty() ? "" : "--" + near;
}

// What nobody asked for, with the nearest name that somebody would understand.
int report_unexpected(const CLI::App& app) {
  const CLI::App* where = &command_in(app);
  const auto extras = app.remaining(true);
  const std::string first = extras.empty() ? "" : extras.front();
  const bool is_option = first.starts_with("-");
  const std::string name = first.substr(0, first.find('='));
  const std::string near = is_option ? nearest_option(name, *where)
                                     : nearest_name(name, names_in(*where));
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

constexpr const char* kFooter =
    "Example: pipewright plan --model gpt:layers=12 "
    "--cluster 4xA100-40@nvlink --minibatch 64\n"
    "COMMAND --help lists a command's options. docs/README.md lists the "
    "tutorials and a page\nfor each command.";

// "help" is --help, and "help COMMAND" that of a command.
std::vector<char*> with_help_as_option(int argc, char** argv) {
  static char option[] = "--help";
  std::vector<char*> words(argv, argv + argc);
  if (argc < 2 || argc > 3 || std::string_view(argv[1]) != "help") return words;
  words.erase(words.begin() + 1);
  words.push_back(option);
  return words;
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
  app.formatter(std::make_shared<HelpOrder>());
  app.require_subcommand(1);
  app.set_version_flag("--version", "pipewright " PIPEWRIGHT_VERSION);
  // A limit on the size of files is an error of the write, not the end.
  std::signal(SIGXFSZ, SIG_IGN);
  Exit exit{0, argv};
  add_commands(app, exit);
  app.footer(kFooter);  // after them, which would have it otherwise
  check_values(app);
  try {
    const std::vector<char*> words = with_help_as_option(argc, argv);
    app.parse(static_cast<int>(words.size()), words.data());
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
