// pipewright train: what is refused before anything runs, in any build.

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace pipewright::cli {
namespace {

struct Run {
  std::string printed;
  int code = 0;
};

Run run(const std::string& arguments) {
  const std::string command =
      std::string(PIPEWRIGHT_BINARY) + " train " + arguments + " 2>&1";
  FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe);
  Run result;
  std::array<char, 4096> buffer;
  while (std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe))
    result.printed.append(buffer.data(), n);
  result.code = WEXITSTATUS(::pclose(pipe));
  return result;
}

const std::string kPlan =
    PIPEWRIGHT_SOURCE_DIR "/fuzz/samples/plan/two_stages.json ";

TEST_CASE("usage is 2, a missing plan 66, a malformed one 65") {
  CHECK(run("").code == 2);
  CHECK(run(kPlan).code == 2);
  CHECK(run(kPlan + "--data digits --run /tmp/x --steps 0").code == 2);
  CHECK(run(kPlan + "--data digits --run /tmp/x --steps 2 --epochs 2").code ==
        2);
  CHECK(run("/no/such/plan --data digits --run /tmp/x").code == 66);
  const Run schedule = run(PIPEWRIGHT_SOURCE_DIR
                           "/fuzz/samples/schedule/1f1b.txt "
                           "--data digits --run /tmp/x");
  CHECK(schedule.code == 65);
  CHECK(schedule.printed.find("1f1b.txt:1") != std::string::npos);
}

TEST_CASE("a plan of no model that can be trained") {
  const Run answer = run(kPlan + "--data synthetic --run /proc/none --steps 1");
  const bool has_runtime =
      answer.printed.find("needs the build with LibTorch") == std::string::npos;
  CHECK(answer.code == (has_runtime ? 65 : 78));
}

}  // namespace
}  // namespace pipewright::cli
