// examples/own-layer: what its README says.

#include <doctest/doctest.h>

#include <algorithm>

#include "pipewright/base/files.h"
#include "pipewright/base/json.h"
#include "tests/answer.h"
#include "tests/cli/train/train_cases.h"

namespace pipewright {
namespace {

const std::filesystem::path kBinary =
    std::filesystem::path(PIPEWRIGHT_BINARY).parent_path() / "own-layer";
const std::string kModel =
    PIPEWRIGHT_SOURCE_DIR "/examples/own-layer/model.json";

std::string printed_by(const std::string& binary, const std::string& arguments,
                       int code) {
  const std::string command = binary + " " + arguments + " 2>/dev/null";
  CAPTURE(command);
  const Answer answer = answer_of(command);
  CHECK(answer.code == code);
  return answer.text;
}

TEST_CASE("a layer of one's own is planned and trained") {
  const testing::TemporaryFolder folder("own-layer");
  const std::string plan = (folder.path() / "plan.json").string();
  const std::string own = kBinary.string();
  CHECK(printed_by(own, "models " + kModel, 0).find("swish") !=
        std::string::npos);
  printed_by(
      own,
      "plan --model " + kModel + " --cluster 2xcpu --minibatch 32 -o " + plan,
      0);
  const std::string printed =
      printed_by(own,
                 "train " + plan +
                     " --data digits --held-out 0.2 --epochs 4 --json --run " +
                     (folder.path() / "run").string(),
                 0);
  const Json json = parse_json(printed, "json").value();
  REQUIRE(json.find("accuracy"));
  CHECK(std::get<double>(json.find("accuracy")->value()) > 0.8);
}

TEST_CASE("and is unknown to a program without it") {
  printed_by(PIPEWRIGHT_BINARY, "models " + kModel, 65);
}

TEST_CASE("it takes less than forty lines") {
  const std::string source =
      read_file(PIPEWRIGHT_SOURCE_DIR "/examples/own-layer/own_layer.cc")
          .value();
  CHECK(std::count(source.begin(), source.end(), '\n') < 40);
}

}  // namespace
}  // namespace pipewright
