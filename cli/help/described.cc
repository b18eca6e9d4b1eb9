#include "cli/help/described.h"

namespace pipewright::cli {
namespace {

DescribedOption described(const CLI::Option& option) {
  DescribedOption made;
  made.text = option.get_description();
  made.is_positional = !option.nonpositional();
  if (option.get_items_expected_max() != 0) made.value = option.get_type_name();
  if (made.is_positional) {
    made.names = {option.get_name(true)};
    return made;
  }
  for (const std::string& name : option.get_snames())
    made.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames())
    made.names.push_back("--" + name);
  return made;
}

}  // namespace

std::vector<DescribedOption> options_of(const CLI::App& app) {
  std::vector<DescribedOption> options;
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty()) options.push_back(described(*option));
  return options;
}

std::vector<DescribedCommand> commands_of(const CLI::App& app) {
  std::vector<DescribedCommand> commands;
  for (const CLI::App* command : app.get_subcommands(
           [](const CLI::App* one) { return !one->get_group().empty(); }))
    commands.push_back({command->get_name(), command->get_description(),
                        options_of(*command)});
  return commands;
}

}  // namespace pipewright::cli
