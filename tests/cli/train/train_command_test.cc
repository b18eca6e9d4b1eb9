// pipewright train, run as a command: output, files and exit codes.

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

Answer run(const std::string& arguments,
           const std::string& redirection = "2>&1") {
  return answer_of(std::string(PIPEWRIGHT_BINARY) + " train " + arguments +
                   " " + redirection);
}

// A plan file of a small perceptron for digits.
std::string plan_file(const fs::path& folder, int workers,
                      const std::string& classes = "10") {
  const std::string name = "mlp:features=64,hidden=32,classes=" + classes;
  Plan plan =
      request_for(load_model(name).value(), "1f1b", workers, 4, "").plan;
  plan.model = name;
  const fs::path file =
      folder / ("plan" + std::to_string(workers) + classes + ".json");
  REQUIRE(write_file(file, to_json(plan).to_text()).ok());
  return file.string() + " ";
}

TEST_CASE("without --lr the optimizer's usual one is taken") {
  const TemporaryFolder folder("rate");
  const std::string plan = plan_file(folder.path(), 1);
  for (const auto& [optimizer, rate] : {std::pair("sgd", "0.05"),
                                        {"momentum", "0.05"},
                                        {"adam", "0.001"},
                                        {"adamw", "0.001"}}) {
    const fs::path where = folder.path() / optimizer;
    const Answer answer = run(plan + "--data digits --steps 2 --optimizer " +
                              optimizer + " --run " + where.string());
    INFO(answer.text);
    REQUIRE(answer.code == 0);
    const std::string metrics = read_file(where / "metrics.jsonl").value();
    CHECK(contains(metrics, std::string("\"rate\":") + rate + ","));
    const bool has_one_word = std::string(rate) == "0.05";
    CHECK(contains(answer.text, "the plan counts 1 number of") != has_one_word);
  }
}

TEST_CASE("options of another optimizer or method are refused, of GPUs named") {
  const TemporaryFolder folder("idle");
  const std::string plan = plan_file(folder.path(), 1);
  const std::string two_steps =
      "--data digits --steps 2 --run " + (folder.path() / "run").string() + " ";
  for (const auto& [options, says] :
       {std::pair("--optimizer adam --momentum 0.5", "--momentum is for sgd"),
        {"--beta1 0.5", "--beta1 is for adam and adamw"},
        {"--correction-decay 0.5", "--correction-decay is for method pipemare"},
        {"--warm-up-steps 5", "--warm-up-steps is for asynchronous methods"}}) {
    const Answer answer = run(plan + two_steps + options);
    INFO(answer.text);
    CHECK(answer.code == 78);
    CHECK(contains(answer.text, says));
    CHECK(!fs::exists(folder.path() / "run"));
  }
  const Answer idle = run(plan + two_steps + "--tf32 --between-ranks nccl");
  INFO(idle.text);
  CHECK(idle.code == 0);
  CHECK(contains(idle.text, "--tf32, --between-ranks are for GPUs"));
}

TEST_CASE("train learns digits and shows prediction beside measurement") {
  const TemporaryFolder folder("command");
  const std::string plan = plan_file(folder.path(), 2);
  const std::string where = "--data digits --run " + folder.path().string();
  const Answer answer = run(plan + where + "/run --epochs 2 --lr 0.05");
  INFO(answer.text);
  REQUIRE(answer.code == 0);
  CHECK(contains(answer.text, "step 225/225"));
  for (const char* part :
       {"predicted", "measured", "error", "busy, worker 1", "bubble", "memory"})
    CHECK(contains(answer.text, part));

  const Answer json =
      run(plan + where + "/json --steps 3 --json", "2>/dev/null");
  const Json object = parse_json(json.text, "json").value();
  REQUIRE(object.find("comparison"));
  CHECK(object.find("comparison")->find("step_seconds"));
  CHECK(std::get<std::int64_t>(object.find("steps")->value()) == 3);
}

TEST_CASE("a plan that names no kinds of devices says on what it trains") {
  const TemporaryFolder folder("kinds");
  const std::string file = plan_file(folder.path(), 1);
  const std::string rest =
      "--data digits --steps 1 --run " + (folder.path() / "run").string();
  const std::string said =
      "the plan names no kinds of devices: training on CPU threads; --device "
      "KIND trains on others\n";
  CHECK(contains(run(file + rest).text, said));
  CHECK(!contains(run(file + rest + "1 --device cpu").text, "names no kinds"));
  const std::string text = read_file(file.substr(0, file.size() - 1)).value();
  Plan plan = parse_plan(text, file).value();
  plan.device_kinds = {"cpu"};
  const fs::path named = folder.path() / "named.json";
  REQUIRE(write_file(named, to_json(plan).to_text()).ok());
  const Answer quiet = run(named.string() + " " + rest + "2");
  CHECK(quiet.code == 0);
  CHECK(!contains(quiet.text, "names no kinds"));
}

TEST_CASE("more workers than cores: a warning") {
  const TemporaryFolder folder("cores");
  const int workers = static_cast<int>(std::thread::hardware_concurrency()) + 1;
  if (workers > 8) return;
  const Answer answer =
      run(plan_file(folder.path(), workers) + "--data digits --steps 2 --run " +
          (folder.path() / "run").string());
  INFO(answer.text);
  CHECK(answer.code == 0);
  CHECK(contains(answer.text, "warning: " + std::to_string(workers)));
}

TEST_CASE("exit codes: 65 for a label, 78 for shapes, 79 for NaN") {
  const TemporaryFolder folder("codes");
  const std::string run_in =
      " --steps 400 --run " + (folder.path() / "run").string();
  const Answer label =
      run(plan_file(folder.path(), 2, "5") + "--data digits" + run_in);
  CHECK(label.code == 65);
  CHECK(contains(label.text, "sample 5 has label 5"));
  const std::string plan = plan_file(folder.path(), 2);
  CHECK(run(plan + "--data text:/dev/null" + run_in).code == 78);
  CHECK(run(plan + "--data digits --optimizer sdg" + run_in).code == 78);
  const Answer lost = run(plan + "--data digits --lr 1e6" + run_in);
  INFO(lost.text);
  CHECK(lost.code == 79);
}

// Exit code of a run that gets a signal once it has begun.
int code_after(int signal, const std::string& plan, const fs::path& where) {
  const pid_t child = ::fork();
  if (child == 0) {
    const int nowhere = ::open("/dev/null", 1);
    ::dup2(nowhere, 1);
    ::dup2(nowhere, 2);
    ::execl(PIPEWRIGHT_BINARY, "pipewright", "train", plan.c_str(), "--data",
            "digits", "--steps", "1000000000", "--run", where.c_str(),
            static_cast<char*>(nullptr));
    ::_exit(127);
  }
  std::error_code none;
  for (int i = 0; i < 600; ++i) {
    if (fs::exists(where / "metrics.jsonl", none) &&
        fs::file_size(where / "metrics.jsonl", none) > 0)
      break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  ::kill(child, signal);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_CASE("SIGINT, SIGTERM and SIGHUP save and end with 130 and 75") {
  const TemporaryFolder folder("signals");
  std::string plan = plan_file(folder.path(), 2);
  plan.pop_back();
  CHECK(code_after(SIGINT, plan, folder.path() / "int") == 130);
  CHECK(code_after(SIGTERM, plan, folder.path() / "term") == 75);
  CHECK(code_after(SIGHUP, plan, folder.path() / "hang-up") == 75);
  for (const char* name : {"int", "term", "hang-up"})
    CHECK(!fs::is_empty(folder.path() / name / "checkpoints"));
}

TEST_CASE("whoever reads what is printed may leave: training goes on") {
  const TemporaryFolder folder("reader-leaves");
  const fs::path where = folder.path() / "run";
  const Answer answer = answer_of(
      "(" PIPEWRIGHT_BINARY " train " + plan_file(folder.path(), 2) +
      " --data digits --steps 40 --run " + where.string() + " 2>&1; echo $? >" +
      (folder.path() / "code").string() + ") | head -1");
  CHECK(fs::exists(where / "checkpoints/step-40/manifest.json"));
  CHECK(read_file(folder.path() / "code").value() == "74\n");
  CHECK(answer.code == 0);
}

}  // namespace
}  // namespace pipewright
