// pipewright train into a folder that has been used, or is in use.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "pipewright/base/files.h"
#include "pipewright/base/json.h"
#include "tests/answer.h"
#include "tests/cli/train/train_cases.h"

namespace pipewright {
namespace {

namespace fs = std::filesystem;
using namespace testing;

struct Case {
  explicit Case(const std::string& name) : folder(name) {
    const std::string model = "mlp:features=64,hidden=32";
    Plan plan = request_for(load_model(model).value(), "1f1b", 2, 4, "").plan;
    plan.model = model;
    REQUIRE(
        write_file(folder.path() / "plan.json", to_json(plan).to_text()).ok());
    REQUIRE(run_pipewright("profile " + model +
                           " --analytic --device cpu --microbatch 4 -o " +
                           (folder.path() / "profile.json").string())
                .code == 0);
  }
  fs::path run() const { return folder.path() / "run"; }
  std::string arguments(const std::string& more) const {
    const std::string at = folder.path().string();
    return "train " + at + "/plan.json --data digits --profile " + at +
           "/profile.json --run " + run().string() + " " + more;
  }
  Answer train(const std::string& more) const {
    return run_pipewright(arguments(more));
  }
  std::vector<std::string> metrics() const {
    std::vector<std::string> lines;
    std::ifstream file(run() / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

  TemporaryFolder folder;
};

// Without what is measured.
std::string step_and_loss(const std::string& line) {
  const Json json = parse_json(line, "metrics.jsonl").value();
  std::string text = json.find("step")->to_line();
  if (const Json* loss = json.find("loss")) text += " " + loss->to_line();
  return text;
}

TEST_CASE("metrics have every step once, however often a run is continued") {
  const Case broken("metrics"), whole("whole");
  REQUIRE(whole.train("--steps 12 --held-out 0.1 --eval-every 4").code == 0);
  // Dies after step 7, when step 4 has been saved and steps 5 to 7 reported.
  const std::string often =
      "--steps 12 --held-out 0.1 --eval-every 4 "
      "--checkpoint-every 4 ";
  broken.train(often + "--inject throw:rank=0,step=8");
  std::ofstream(broken.run() / "metrics.jsonl", std::ios::app)
      << "{\"step\": 8, \"lo";  // cut off
  const Answer again = broken.train(often + "--resume");
  INFO(again.text);
  CHECK(again.code == 0);
  const auto expected = whole.metrics(), found = broken.metrics();
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    CHECK(step_and_loss(found[i]) == step_and_loss(expected[i]));
}

TEST_CASE("without a checkpoint --resume is refused, and leaves no folder") {
  const Case none("no-checkpoint");
  const Answer refused = none.train("--steps 4 --resume");
  INFO(refused.text);
  CHECK(refused.code == 66);
  CHECK(contains(refused.text, "has no checkpoint to resume from"));
  CHECK(!contains(refused.text, "measuring"));
  CHECK(!fs::exists(none.run()));
}

TEST_CASE("a finished run that is continued says so and changes nothing") {
  const Case done("finished");
  REQUIRE(done.train("--steps 4").code == 0);
  const std::string summary = read_file(done.run() / "summary.json").value();
  const auto metrics = done.metrics();
  const Answer again = done.train("--steps 4 --resume");
  INFO(again.text);
  CHECK(again.code == 0);
  CHECK(contains(again.text, "nothing to do"));
  CHECK(contains(again.text, "has 4 steps"));
  CHECK(!contains(again.text, "loss 0"));
  CHECK(read_file(done.run() / "summary.json").value() == summary);
  CHECK(done.metrics() == metrics);
  const Answer json = run_pipewright(
      done.arguments("--steps 3 --resume --json"), "2>/dev/null");
  CHECK(json.code == 0);
  CHECK(parse_json(json.text, "json").value().find("steps")->to_line() == "4");
  CHECK(done.train("--steps 5 --resume").code == 0);
}

// Starts it and returns when it has trained a step.
pid_t started(const Case& each, const std::string& more) {
  const std::string line =
      "exec " PIPEWRIGHT_BINARY " " + each.arguments(more) + " >/dev/null 2>&1";
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl("/bin/sh", "sh", "-c", line.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  for (int i = 0; i < 2400 && each.metrics().empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
  REQUIRE(!each.metrics().empty());
  return child;
}

int ended(pid_t child, int signal) {
  ::kill(child, signal);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_CASE("a folder in use is refused, naming who uses it, and not touched") {
  const Case shared("in-use");
  const pid_t first = started(shared, "--steps 100000000 --checkpoint-every 5");
  for (const char* more : {"--steps 3", "--steps 300 --resume"}) {
    const Answer second = shared.train(more);
    INFO(second.text);
    CHECK(second.code == 69);
    CHECK(contains(second.text, "in use by process " + std::to_string(first)));
    CHECK(!fs::exists(shared.run() / "failure_0.json"));
  }
  CHECK(ended(first, SIGTERM) == 75);
  CHECK(!fs::exists(shared.run() / "lease.json"));
  // Every step once: nobody else has written.
  const auto lines = shared.metrics();
  for (std::size_t i = 0; i < lines.size(); ++i)
    CHECK(parse_json(lines[i], "line").value().find("step")->to_line() ==
          std::to_string(i + 1));
}

TEST_CASE("of two that start at once one trains") {
  const Case shared("at-once");
  const Answer both = answer_of(
      "for i in 1 2; do " PIPEWRIGHT_BINARY " " +
      shared.arguments("--steps 300") +
      " >/dev/null 2>&1 & pids=\"$pids $!\"; done; for p in $pids; do wait $p; "
      "echo code $?; done");
  INFO(both.text);
  CHECK(contains(both.text, "code 0"));
  // Refused while the other trains, or after that: it has a run.
  const bool refused =
      contains(both.text, "code 69") || contains(both.text, "code 78");
  CHECK(refused);
  CHECK(shared.metrics().size() == 300);
}

TEST_CASE("the folder of a killed process is free at once") {
  const Case shared("killed");
  const pid_t first = started(shared, "--steps 100000000 --checkpoint-every 1");
  for (int i = 0; i < 2400 && shared.metrics().size() < 3; ++i)  // saved once
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
  CHECK(ended(first, SIGKILL) == 128 + SIGKILL);
  CHECK(fs::exists(shared.run() / "lease.json"));
  const Answer next = shared.train("--steps 1 --resume");
  INFO(next.text);
  CHECK(next.code == 0);
}

}  // namespace
}  // namespace pipewright
