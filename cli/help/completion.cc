// pipewright completion SHELL: a script that completes commands and options.

#include <iostream>

#include "cli/help/described.h"
#include "pipewright/base/text.h"

namespace pipewright::cli {
namespace {

// "--help --json ...": every name an option has.
std::string names_of(const std::vector<DescribedOption>& options) {
  std::vector<std::string> names;
  for (const DescribedOption& option : options)
    if (!option.is_positional)
      names.insert(names.end(), option.names.begin(), option.names.end());
  return join(names, " ");
}

// Where no option is typed, files are completed.
std::string bash_completion(const CLI::App& app) {
  std::string first = names_of(options_of(app)), cases;
  for (const DescribedCommand& command : commands_of(app)) {
    first += " " + command.name;
    cases += "    " + command.name + ") words=\"" + names_of(command.options) +
             "\" ;;\n";
  }
  return "# bash completion for pipewright\n"
         "_pipewright() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} words=\n"
         "  COMPREPLY=()\n"
         "  case ${COMP_WORDS[1]} in\n" +
         cases +
         "  esac\n"
         "  if [ \"$COMP_CWORD\" = 1 ]; then\n"
         "    words=\"" +
         first +
         "\"\n"
         "  elif [[ $current != -* ]]; then\n"
         "    return\n"
         "  fi\n"
         "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
         "}\n"
         "complete -o default -F _pipewright pipewright\n";
}

// For a word in single quotes with zsh's own signs in it.
std::string zsh_text(const std::string& text) {
  std::string quoted;
  for (char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') quoted += '\\';
    quoted += c == '\'' ? "'\\''" : std::string(1, c);
  }
  return quoted;
}

std::string zsh_option(const DescribedOption& option) {
  std::string lines;
  const std::string value =
      option.value.empty() ? "" : ":" + zsh_text(option.value) + ":_files";
  for (const std::string& name : option.names)
    lines +=
        "      '" + name + "[" + zsh_text(option.text) + "]" + value + "' \\\n";
  return lines;
}

std::string zsh_completion(const CLI::App& app) {
  std::string names, cases;
  for (const DescribedCommand& command : commands_of(app)) {
    names += "    '" + command.name + ":" + zsh_text(command.text) + "'\n";
    cases += "    " + command.name + ") _arguments \\\n";
    for (const DescribedOption& option : command.options)
      if (!option.is_positional) cases += zsh_option(option);
    cases += "      '*:file:_files' ;;\n";
  }
  return "#compdef pipewright\n"
         "_pipewright() {\n"
         "  local -a commands=(\n" +
         names +
         "  )\n"
         "  if (( CURRENT == 2 )); then\n"
         "    _describe command commands\n"
         "    compadd -- " +
         names_of(options_of(app)) +
         "\n"
         "    return\n"
         "  fi\n"
         "  local command=$words[2]\n"
         "  shift words\n"
         "  (( CURRENT-- ))\n"
         "  case $command in\n" +
         cases +
         "  esac\n"
         "}\n"
         "_pipewright \"$@\"\n";
}

}  // namespace

void add_completion(CLI::App& app, Exit&) {
  CLI::App* command = app.add_subcommand(
      "completion", "Print a script that completes commands in bash or zsh");
  auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "bash or zsh")
      ->required()
      ->check(
          [](const std::string& name) -> std::string {
            if (name == "bash" || name == "zsh") return "";
            return "expected bash or zsh, found \"" + printable(name) + "\"";
          },
          "{bash,zsh}", "");
  command->callback([shell, &app] {
    std::cout << (*shell == "bash" ? bash_completion(app)
                                   : zsh_completion(app));
  });
}

}  // namespace pipewright::cli
