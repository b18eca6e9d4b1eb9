// The command `pipewright models`, as a person meets it.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "pipewright/base/files.h"
#include "pipewright/base/json.h"
#include "pipewright/model/model_file.h"
#include "pipewright/model/zoo/zoo.h"
#include "tests/answer.h"

namespace pipewright {
namespace {

Answer run(const std::string& arguments) {
  return answer_of("cd " PIPEWRIGHT_SOURCE_DIR
                   " && COLUMNS=100 " PIPEWRIGHT_BINARY " " +
                   arguments + " 2>&1");
}

}  // namespace

TEST_CASE("the example of an own network prints what it says") {
  auto expected =
      read_file(PIPEWRIGHT_SOURCE_DIR "/examples/own-network/expected.txt");
  REQUIRE(expected);
  const Answer answer = run("models examples/own-network/model.json");
  CHECK(answer.code == 0);
  CHECK(answer.text == *expected);
}

TEST_CASE("the list names every model, for people and as JSON") {
  const Answer people = run("models");
  const Answer machine = run("models --json");
  CHECK(people.code == 0);
  auto json = parse_json(machine.text, "stdout");
  REQUIRE(json);
  CHECK(json->find("models")->if_array()->size() == zoo().size());
  for (const ZooEntry& entry : zoo())
    CHECK(people.text.find("\n" + entry.name + " ") != std::string::npos);
  CHECK(people.text.find("138,357,544") != std::string::npos);
}

TEST_CASE("--json of a model is its file") {
  const Answer answer = run("models gpt2 --json");
  CHECK(answer.code == 0);
  auto model = parse_model(answer.text, "stdout");
  REQUIRE(model);
  CHECK(*model == *zoo_model("gpt2"));
}

TEST_CASE("a deep model's table is short, and complete when asked for") {
  const auto lines = [](const std::string& text) {
    return std::count(text.begin(), text.end(), '\n');
  };
  CHECK(lines(run("models gpt2-xl").text) < 40);
  CHECK(lines(run("models gpt2-xl --all").text) > 500);
}

TEST_CASE("wrong names end with the code of bad configuration") {
  const Answer answer = run("models resnet51");
  CHECK(answer.code == static_cast<int>(ErrorCode::BadConfiguration));
  CHECK(answer.text.find("did you mean \"resnet50\"?") != std::string::npos);
  CHECK(run("models no/such/file.json").code ==
        static_cast<int>(ErrorCode::MissingInput));
  CHECK(run("models examples/own-network/README.md").code ==
        static_cast<int>(ErrorCode::MalformedInput));
}

}  // namespace pipewright
