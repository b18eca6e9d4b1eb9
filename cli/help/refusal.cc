#include "cli/help/refusal.h"

#include "cli/help/help_order.h"
#include "pipewright/base/text.h"

namespace pipewright::cli {
namespace {

std::string first_missing(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options())
    if (option->get_required() && option->count() == 0)
      return option->get_name() + " is required";
  return "no command is given";
}

std::string first_excluded(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options())
    for (const CLI::Option* other : by_name(option->get_excludes()))
      if (option->count() > 0 && other->count() > 0)
        return option->get_name() + " excludes " + other->get_name();
  return "";
}

std::string first_in_need(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options())
    for (const CLI::Option* other : by_name(option->get_needs()))
      if (option->count() > 0 && other->count() == 0)
        return option->get_name() + " requires " + other->get_name();
  return "";
}

// The option that the library's message is about, if it is about one.
const CLI::Option* named_in(const CLI::App& command, const std::string& text) {
  const CLI::Option* found = nullptr;
  for (const CLI::Option* option : command.get_options())
    if (text.find(option->get_name()) != std::string::npos &&
        (!found || option->get_name().size() > found->get_name().size()))
      found = option;
  return found;
}

std::string wrong_type(const CLI::Option& option) {
  const std::string type = option.get_type_name(),
                    found = printable(join(option.results(), ","));
  if (option.get_items_expected_max() == 0)
    return option.get_name() + " takes no value, found \"" + found + "\"";
  return option.get_name() + ": expected " +
         (type.starts_with("FLOAT")  ? "a number"
          : type.starts_with("TEXT") ? "a text"
                                     : "an integer") +
         ", found \"" + found + "\"";
}

std::string wrong_count(const CLI::Option& option) {
  const auto& values = option.results();
  if (values.empty()) return option.get_name() + " needs a value";
  return option.get_name() + " is given " + std::to_string(values.size()) +
         " values, " + printable(join(values, " and ")) + "; it takes one";
}

template <typename Kind>
bool is(const CLI::ParseError& parsed) {
  return dynamic_cast<const Kind*>(&parsed) != nullptr;
}

std::string refusal_text(const CLI::App& command,
                         const CLI::ParseError& parsed) {
  const std::string theirs = parsed.what();
  if (is<CLI::RequiredError>(parsed)) return first_missing(command);
  if (is<CLI::ExcludesError>(parsed)) return first_excluded(command);
  if (is<CLI::RequiresError>(parsed)) return first_in_need(command);
  if (const CLI::Option* option = named_in(command, theirs)) {
    if (is<CLI::ConversionError>(parsed)) return wrong_type(*option);
    if (is<CLI::ArgumentMismatch>(parsed)) return wrong_count(*option);
  }
  return theirs;  // "--option: " and what our own check says of its value
}

}  // namespace

const CLI::App& command_in(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : *chosen.front();
}

Error refusal(const CLI::App& app, const CLI::ParseError& parsed) {
  const CLI::App& command = command_in(app);
  const std::string name = &command == &app ? "" : command.get_name() + " ";
  return {ErrorCode::Usage,
          refusal_text(command, parsed),
          {},
          "pipewright " + name + "--help",
          {}};
}

}  // namespace pipewright::cli
