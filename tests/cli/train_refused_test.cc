// pipewright train: what is refused before anything runs, in any build.

#include <doctest/doctest.h>

#include <string>

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

TEST_CASE("a plan of no model that can be trained") {
  const Answer answer =
      train(kTwoStages + "--data synthetic --run /proc/none --steps 1");
  const bool has_runtime =
      answer.text.find("needs the build with LibTorch") == std::string::npos;
  CHECK(answer.code == (has_runtime ? 65 : 78));
}

}  // namespace
}  // namespace pipewright::cli
