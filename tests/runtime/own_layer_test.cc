// examples/own-layer: what its README says.

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>

#include "pipewright/base/files.h"
#include "pipewright/base/json.h"
#include "tests/runtime/train_cases.h"

namespace pipewright {
namespace {

const std::filesystem::path kBinary =
    std::filesystem::path(PIPEWRIGHT_BINARY).parent_path() / "own-layer";
const std::string kModel =
    PIPEWRIGHT_SOURCE_DIR "/examples/own-layer/model.json";

std::string answer_of(const std::string& binary, const std::string& arguments,
                      int code) {
  const std::string command = binary + " " + arguments + " 2>/dev/null";
  FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe);
  std::string printed;
  std::array<char, 4096> buffer;
  while (std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe))
    printed.append(buffer.data(), n);
  CAPTURE(command);
  CHECK(WEXITSTATUS(::pclose(pipe)) == code);
  return printed;
}

TEST_CASE("a layer of one's own is planned and trained") {
  const testing::TemporaryFolder folder("own-layer");
  const std::string plan = (folder.path() / "plan.json").string();
  const std::string own = kBinary.string();
  CHECK(answer_of(own, "models " + kModel, 0).find("swish") !=
        std::string::npos);
  answer_of(
      own,
      "plan --model " + kModel + " --cluster 2xcpu --minibatch 32 -o " + plan,
      0);
  const std::string printed =
      answer_of(own,
                "train " + plan +
                    " --data digits --held-out 0.2 --epochs 4 --json --run " +
                    (folder.path() / "run").string(),
                0);
  const Json json = parse_json(printed, "json").value();
  REQUIRE(json.find("accuracy"));
  CHECK(std::get<double>(json.find("accuracy")->value()) > 0.8);
}

TEST_CASE("and is unknown to a program without it") {
  answer_of(PIPEWRIGHT_BINARY, "models " + kModel, 65);
}

TEST_CASE("it takes less than forty lines") {
  const std::string source =
      read_file(PIPEWRIGHT_SOURCE_DIR "/examples/own-layer/own_layer.cc")
          .value();
  CHECK(std::count(source.begin(), source.end(), '\n') < 40);
}

}  // namespace
}  // namespace pipewright
