// The page of schedules shows every schedule, as the command prints it. What
// other pages show is compared by tests/structure/docs_test.py.

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "pipewright/base/files.h"
#include "pipewright/base/text.h"
#include "pipewright/schedules/generator.h"
#include "tests/answer.h"

namespace pipewright {
namespace {

struct Shown {
  std::string arguments;
  std::string text;
};

// Up to the next command or the end of the block, without trailing blank lines.
std::vector<Shown> shown_in(const std::string& file) {
  const std::string text = read_file(PIPEWRIGHT_SOURCE_DIR "/" + file).value();
  std::vector<Shown> all;
  bool inside = false;
  for (std::string_view line : split(text, '\n')) {
    const std::size_t command = line.find("pipewright schedule ");
    const bool starts = line.starts_with("$ ");
    if (starts && command != std::string_view::npos)
      all.push_back({std::string(line.substr(command + 11)), ""});
    else if (inside && !starts && !line.starts_with("```"))
      all.back().text += std::string(line) + "\n";
    if (starts || line.starts_with("```"))
      inside = starts && command != std::string_view::npos;
  }
  for (Shown& shown : all)
    shown.text.erase(shown.text.find_last_not_of('\n') + 1);
  return all;
}

std::string printed_by(const std::string& arguments) {
  auto [text, code] =
      answer_of("COLUMNS=100 '" PIPEWRIGHT_BINARY "' " + arguments + " 2>&1");
  REQUIRE(code == 0);
  text.erase(text.find_last_not_of('\n') + 1);
  return text;
}

TEST_CASE("the page of schedules shows every one of them") {
  std::set<std::string> names;
  for (const Shown& shown : shown_in("docs/reference/schedules.md")) {
    CAPTURE(shown.arguments);
    CHECK(shown.text == printed_by(shown.arguments));
    names.insert(std::string(split(shown.arguments, ' ')[1]));
  }
  for (const ScheduleGenerator& generator : schedule_generators())
    CHECK_MESSAGE(names.count(generator.name) == 1, generator.name);
}

}  // namespace
}  // namespace pipewright
