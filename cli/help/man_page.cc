// pipewright man-page: pipewright(1) in roff, written from the commands' help.
// The build runs it; --help does not list it.

#include <array>
#include <iostream>

#include "cli/help/described.h"
#include "pipewright/base/text.h"

namespace pipewright::cli {
namespace {

// roff takes a dot at the start of a line for a request, and - for a hyphen.
std::string roff_text(const std::string& text) {
  std::string escaped;
  if (!text.empty() && (text[0] == '.' || text[0] == '\'')) escaped = "\\&";
  for (char c : text) {
    if (c == '-') escaped += '\\';
    escaped += c == '\\' ? "\\e" : std::string(1, c);
  }
  return escaped;
}

// A paragraph with a title in bold before it.
std::string entry(const std::string& title, const std::string& value,
                  const std::string& text) {
  return ".TP\n\\fB" + roff_text(title) + "\\fR" +
         (value.empty() ? "" : " \\fI" + roff_text(value) + "\\fR") + "\n" +
         roff_text(text) + "\n";
}

std::string options_text(const std::vector<DescribedOption>& options) {
  std::string text;
  for (const DescribedOption& option : options)
    text += entry(join(option.names, ", "), option.value, option.text);
  return text;
}

std::string exit_codes() {
  struct Code {
    int value;
    const char* meaning;
  };
  constexpr auto code = [](ErrorCode error) { return static_cast<int>(error); };
  const std::array<Code, 13> codes = {{
      {0, "Success."},
      {code(ErrorCode::Usage), "Wrong usage."},
      {code(ErrorCode::MalformedInput),
       "Malformed input; file and line are named."},
      {code(ErrorCode::MissingInput), "Missing input."},
      {code(ErrorCode::InUse),
       "Another process uses the run folder, or a rank has not come."},
      {code(ErrorCode::Bug), "A bug in Pipewright."},
      {code(ErrorCode::OutOfMemory), "Not enough memory on this machine."},
      {code(ErrorCode::CannotCreate), "An output cannot be created."},
      {code(ErrorCode::CannotWrite), "An output cannot be written."},
      {code(ErrorCode::WorkerLost),
       "A worker is lost, or the run was preempted."},
      {code(ErrorCode::WorkersDisagree), "Workers disagree on what to run."},
      {code(ErrorCode::BadConfiguration),
       "Bad configuration: nothing fits, or it cannot be done."},
      {code(ErrorCode::LossNotFinite), "The loss is not finite."},
  }};
  std::string text;
  for (const Code& one : codes)
    text += entry(std::to_string(one.value), "", one.meaning);
  return text;
}

std::string man_page(const CLI::App& app) {
  std::string text = ".TH PIPEWRIGHT 1 \"\" \"pipewright " PIPEWRIGHT_VERSION
                     "\"\n.SH NAME\npipewright \\- ";
  text += roff_text(app.get_description()) + "\n";
  text += ".SH SYNOPSIS\n.B pipewright\n\\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n";
  text += ".SH OPTIONS\n" + options_text(options_of(app));
  text += ".SH COMMANDS\n";
  for (const DescribedCommand& command : commands_of(app))
    text += ".SS pipewright " + roff_text(command.name) + "\n" +
            roff_text(command.text) + ".\n" + options_text(command.options);
  return text + ".SH EXIT STATUS\n" + exit_codes();
}

}  // namespace

void add_man_page(CLI::App& app, Exit&) {
  CLI::App* command =
      app.add_subcommand("man-page", "Prints pipewright(1)")->group("");
  command->callback([&app] { std::cout << man_page(app); });
}

}  // namespace pipewright::cli
