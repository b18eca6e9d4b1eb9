// pipewright validate, from outside: what it prints and its exit code.

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <sstream>
#include <string>

#include "pipewright/base/files.h"
#include "pipewright/base/json.h"
#include "tests/answer.h"

namespace pipewright::cli {
namespace {

namespace fs = std::filesystem;
const std::string kSampleFolder = PIPEWRIGHT_SOURCE_DIR "/fuzz/samples/";

// Both streams, unless `redirection` says otherwise.
}  // namespace

TEST_CASE("good files: one line each, exit code 0") {
  const Answer answer =
      run_pipewright("validate " + kSampleFolder + "plan/two_stages.json " +
                     kSampleFolder + "schedule/1f1b.txt");
  CHECK(answer.code == 0);
  CHECK(contains(answer.text,
                 "plan/two_stages.json: ok, plan of mlp:layers=3: 2 stages, "
                 "2 workers, 3 microbatches\n"));
  CHECK(contains(answer.text, "1f1b.txt: ok, schedule: 2 stages"));
}

// Such a profile has the name of a built-in model, and may have other layers.
TEST_CASE("plans of measured profiles, with their profile and without") {
  const auto plan = (fs::temp_directory_path() /
                     ("pipewright_of_profile_" + std::to_string(::getpid())))
                        .string();
  for (const char* name : {"gnmt", "vgg16", "alexnet", "resnet18"}) {
    CAPTURE(name);
    const std::string inputs =
        std::string(" --profile " PIPEWRIGHT_SOURCE_DIR "/examples/profiles/") +
        name + "-v100.json --cluster 4xV100@1GB/s";
    REQUIRE(run_pipewright("plan" + inputs +
                           " --planner balanced --minibatch 256 -o " + plan)
                .code == 0);
    CHECK(run_pipewright("validate " + plan).code == 0);
    const Answer proved = run_pipewright("validate " + plan + inputs);
    INFO(proved.text);
    CHECK(proved.code == 0);
  }
  fs::remove(plan);
}

TEST_CASE("why a plan was not compared with its model is said") {
  const auto file = (fs::temp_directory_path() /
                     ("pipewright_without_" + std::to_string(::getpid())))
                        .string();
  std::string text =
      read_file(PIPEWRIGHT_SOURCE_DIR "/examples/simulate/plan.json").value();
  text.replace(text.find("17-40"), 5, "17-39");
  REQUIRE(write_file(file, text).ok());
  CHECK(contains(run_pipewright("validate " + file).text,
                 "not compared with its model: the plan is of a profile, and "
                 "vgg16 has other layers here (layer 40 (loss) has its forward "
                 "in no stage)"));
  text.replace(text.find("\"vgg16\""), 7, "\"vgg99\"");
  REQUIRE(write_file(file, text).ok());
  CHECK(contains(run_pipewright("validate " + file).text,
                 "not compared with its model: unknown model \"vgg99\""));
  fs::remove(file);
}

TEST_CASE("a schedule that is no list is one error") {
  const auto file = (fs::temp_directory_path() /
                     ("pipewright_schedule_" + std::to_string(::getpid())))
                        .string();
  std::string text =
      read_file(PIPEWRIGHT_SOURCE_DIR "/examples/simulate/plan.json").value();
  const std::size_t at = text.find("[", text.find("\"schedule\""));
  text.replace(at, text.find("]", at) + 1 - at, "\"foo\"");
  REQUIRE(write_file(file, text).ok());
  const Answer answer = run_pipewright("validate " + file);
  CHECK(answer.code == 65);
  CHECK(contains(answer.text, ": schedule: "));
  CHECK(!contains(answer.text, "empty"));
  fs::remove(file);
}

TEST_CASE("with a cluster: a plan's memory is proved, or refused") {
  const std::string plan =
      "validate " PIPEWRIGHT_SOURCE_DIR "/examples/simulate/plan.json ";
  const Answer good = run_pipewright(plan + "--cluster 4xV100@nvlink");
  CHECK(good.code == 0);
  CHECK(contains(good.text, "runs on 4xV100@nvlink: worker 0 uses at most "));
  CHECK(contains(good.text, "\n  weights "));
  std::istringstream lines(good.text.substr(good.text.find(": ok, ")));
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 120);
  CHECK(run_pipewright(plan + "--cluster 2xV100@nvlink").code == 78);
  // The same devices with less memory than worker 0 needs.
  const auto file = (fs::temp_directory_path() /
                     ("pipewright_small_" + std::to_string(::getpid())))
                        .string();
  REQUIRE(run_pipewright("cluster 4xV100@nvlink -o " + file).code == 0);
  std::string text = read_file(file).value();
  const std::string memory = "\"memory\": 16000000000";
  REQUIRE(contains(text, memory));
  for (std::size_t at; (at = text.find(memory)) != std::string::npos;)
    text.replace(at, memory.size(), "\"memory\": 2000000000");
  REQUIRE(write_file(file, text).ok());
  const Answer small = run_pipewright(plan + "--cluster " + file);
  CHECK(small.code == 78);
  CHECK(contains(small.text, "worker 0, action "));
  CHECK(contains(small.text, "but has 2 GB: "));
  CHECK(contains(small.text, "[0"));  // the action, marked in the grid
  fs::remove(file);
}

TEST_CASE("missing is 66, malformed 65, usage 2; the worst counts") {
  const std::string good = kSampleFolder + "plan/two_stages.json ";
  CHECK(run_pipewright("validate").code == 2);
  CHECK(run_pipewright("validate --nonsense " + good).code == 2);
  CHECK(run_pipewright("validate /no/such/file").code == 66);
  CHECK(run_pipewright("validate " + good + "/no/such/file").code == 66);
  const Answer empty = run_pipewright("validate /dev/null");
  CHECK(empty.code == 65);
  CHECK(empty.text == "/dev/null:1:1: the file is empty\n");
  CHECK(run_pipewright("validate " + std::string(PIPEWRIGHT_BINARY)).code ==
        65);
  CHECK(run_pipewright("validate / " + good).code == 66);
}

TEST_CASE("all errors of a file at once") {
  std::string text = read_file(kSampleFolder + "plan/two_stages.json").value();
  for (const char* key : {"\"minibatch\"", "\"replication\""})
    text.insert(text.find(key) + 1, "x");
  const fs::path file = fs::temp_directory_path() /
                        ("validate_test." + std::to_string(::getpid()));
  REQUIRE(write_file(file, text).ok());
  const Answer people = run_pipewright("validate " + file.string());
  CHECK(people.code == 65);
  CHECK(
      contains(people.text, file.string() + ":4: unknown key \"xminibatch\""));
  CHECK(contains(people.text,
                 file.string() + ":5: unknown key \"xreplication\""));
  const Answer machine =
      run_pipewright("validate --json " + file.string(), "2>/dev/null");
  fs::remove(file);
  const auto json = parse_json(machine.text, "answer");
  REQUIRE(json);
  const Json& first = json->find("files")->if_array()->at(0);
  CHECK(*std::get_if<bool>(&first.find("ok")->value()) == false);
  CHECK(first.find("errors")->if_array()->size() >= 3);
}

TEST_CASE("an unknown format offers the nearest") {
  const fs::path file =
      fs::temp_directory_path() / ("format_test." + std::to_string(::getpid()));
  REQUIRE(write_file(file, "{\"format\": \"pipewright/plam\"}").ok());
  const Answer answer = run_pipewright("validate " + file.string());
  fs::remove(file);
  CHECK(answer.code == 65);
  CHECK(contains(answer.text, "did you mean \"pipewright/plan\"?"));
}

}  // namespace pipewright::cli
