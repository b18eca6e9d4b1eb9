// pipewright train: what is refused before anything runs, in any build.

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "pipewright/base/files.h"
#include "tests/answer.h"

namespace pipewright::cli {
namespace {

Answer train(const std::string& arguments) {
  return answer_of(PIPEWRIGHT_BINARY " train " + arguments + " 2>&1");
}

const std::string kTwoStages =
    PIPEWRIGHT_SOURCE_DIR "/fuzz/samples/plan/two_stages.json ";

TEST_CASE("usage is 2, a missing plan 66, a malformed one 65") {
  CHECK(train("").code == 2);
  CHECK(train(kTwoStages).code == 2);
  CHECK(train(kTwoStages + "--data digits --run /tmp/x --steps 0").code == 2);
  CHECK(train(kTwoStages + "--data digits --run /tmp/x --steps 2 --epochs 2")
            .code == 2);
  // A build without LibTorch says so before it looks for a plan.
  const Answer missing = train("/no/such/plan --data digits --run /tmp/x");
  if (missing.text.find("needs the build with LibTorch") != std::string::npos) {
    CHECK(missing.code == 78);
    return;
  }
  CHECK(missing.code == 66);
  const Answer schedule = train(PIPEWRIGHT_SOURCE_DIR
                                "/fuzz/samples/schedule/1f1b.txt "
                                "--data digits --run /tmp/x");
  CHECK(schedule.code == 65);
  CHECK(schedule.text.find("1f1b.txt:1") != std::string::npos);
}

TEST_CASE("a plan whose layers are not those of its model") {
  std::string text =
      read_file(PIPEWRIGHT_SOURCE_DIR "/fuzz/samples/plan/two_stages.json")
          .value();
  text.replace(text.find("layers=3"), 8, "layers=4");
  const std::string plan = (std::filesystem::temp_directory_path() /
                            ("plan-" + std::to_string(::getpid()) + ".json"))
                               .string();
  REQUIRE(write_file(plan, text));
  const Answer answer =
      train(plan + " --data synthetic --run /proc/none --steps 1");
  std::filesystem::remove(plan);
  const bool has_runtime =
      answer.text.find("needs the build with LibTorch") == std::string::npos;
  CHECK(answer.code == (has_runtime ? 65 : 78));
}

TEST_CASE("a plan for other devices is refused, and --device translates it") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() /
                          ("pipewright-devices-" + std::to_string(::getpid()));
  fs::create_directories(folder);
  const std::string plan = (folder / "plan.json").string();
  const std::string run =
      " --data digits --steps 2 --run " + (folder / "run").string();
  REQUIRE(answer_of(PIPEWRIGHT_BINARY
                    " plan --model mlp:features=64,classes=10 --cluster "
                    "2xV100 --minibatch 32 -o " +
                    plan + " 2>&1")
              .code == 0);
  const Answer refused = train(plan + run);
  CHECK(refused.code == 78);
  if (refused.text.find("needs the build with LibTorch") != std::string::npos)
    return;
  INFO(refused.text);
  CHECK(refused.text.find("kind V100 is not here") != std::string::npos);
  CHECK(refused.text.find("--device cpu") != std::string::npos);
  CHECK(!fs::exists(folder / "run"));
  CHECK(train(plan + run + " --device cpu").code == 0);
  CHECK(train(plan + run + " --device V100").code == 78);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace pipewright::cli
