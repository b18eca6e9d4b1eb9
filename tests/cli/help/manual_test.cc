// pipewright completion and man-page: each names every command and every option
// that --help shows.

#include <doctest/doctest.h>

#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/answer.h"

namespace pipewright::cli {
namespace {

std::string printed(const std::string& arguments) {
  const Answer answer = run_pipewright(arguments);
  REQUIRE(answer.code == 0);
  return answer.text;
}

// The first words of the lines below "Subcommands:".
std::vector<std::string> command_names() {
  const std::string help = printed("--help");
  std::istringstream lines(help.substr(help.find("Subcommands:")));
  std::vector<std::string> names;
  std::string line;
  std::getline(lines, line);
  const std::regex name("^  ([a-z-]+) .*");
  for (std::smatch match; std::getline(lines, line);)
    if (std::regex_match(line, match, name)) names.push_back(match[1]);
  REQUIRE(names.size() >= 12);
  return names;
}

// Every -x and --xyz that a line of the command's help begins with.
std::set<std::string> option_names(const std::string& command) {
  const std::string help = printed(command + " --help");
  std::set<std::string> names;
  const std::regex line("\n  (-[^ ]*)");
  for (std::sregex_iterator at(help.begin(), help.end(), line), end; at != end;
       ++at) {
    std::istringstream parts((*at)[1]);
    for (std::string name; std::getline(parts, name, ',');) names.insert(name);
  }
  REQUIRE(names.count("--help") == 1);
  return names;
}

// The piece of a script from a command's case to the next one's.
std::string case_of(const std::string& script, const std::string& command) {
  const std::size_t start = script.find("\n    " + command + ")");
  REQUIRE(start != std::string::npos);
  return script.substr(start, script.find(";;", start) - start);
}

TEST_CASE("help as a command prints what --help prints") {
  CHECK(printed("help") == printed("--help"));
  CHECK(printed("help plan") == printed("plan --help"));
  CHECK(run_pipewright("help plan train").code == 2);
}

TEST_CASE("completion names every command and its options") {
  const std::string bash = printed("completion bash");
  const std::string zsh = printed("completion zsh");
  for (const std::string& command : command_names()) {
    CAPTURE(command);
    CHECK(contains(zsh, "'" + command + ":"));
    const std::string in_bash = case_of(bash, command) + " ";
    const std::string in_zsh = case_of(zsh, command);
    for (const std::string& option : option_names(command)) {
      CAPTURE(option);
      CHECK(std::regex_search(in_bash, std::regex("[\" ]" + option + "[\" ]")));
      CHECK(contains(in_zsh, "'" + option + "["));
    }
  }
}

// What bash offers after these words; the last one is being typed.
std::string offered(const std::string& words, int last) {
  return answer_of("bash -c '. <(" PIPEWRIGHT_BINARY
                   " completion bash); COMP_WORDS=(" +
                   words + "); COMP_CWORD=" + std::to_string(last) +
                   "; _pipewright; echo \"${COMPREPLY[*]}\"'")
      .text;
}

TEST_CASE("bash completes") {
  CHECK(offered("pipewright pl", 1) == "plan place\n");
  CHECK(offered("pipewright --v", 1) == "--version\n");
  CHECK(offered("pipewright plan --mini", 2) == "--minibatch\n");
  CHECK(offered("pipewright simulate pla", 2) == "\n");  // files, by default
}

TEST_CASE("a shell that is not known is a usage error") {
  CHECK(run_pipewright("completion fish").code == 2);
}

TEST_CASE("the man page names every command and its options") {
  std::string page = printed("man-page");
  for (std::size_t at; (at = page.find("\\-")) != std::string::npos;)
    page.erase(at, 1);
  CHECK(contains(page, ".TH PIPEWRIGHT 1"));
  for (const std::string& command : command_names()) {
    CAPTURE(command);
    const std::size_t start = page.find(".SS pipewright " + command + "\n");
    REQUIRE(start != std::string::npos);
    const std::string section =
        page.substr(start, page.find(".S", start + 3) - start);
    for (const std::string& option : option_names(command)) {
      CAPTURE(option);
      CHECK(
          std::regex_search(section, std::regex("[B ]" + option + "[,\\\\]")));
    }
  }
}

}  // namespace
}  // namespace pipewright::cli
