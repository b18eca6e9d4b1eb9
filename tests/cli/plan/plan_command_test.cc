// pipewright plan and compare, from outside: what they print, their exit codes,
// and that simulate agrees with what plan promised.

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>

#include "pipewright/base/json.h"
#include "pipewright/planners/planner.h"
#include "tests/answer.h"

namespace pipewright::cli {
namespace {

namespace fs = std::filesystem;
const std::string kProfiles = PIPEWRIGHT_SOURCE_DIR "/examples/profiles/";
const std::string kGnmt = " --profile " + kProfiles +
                          "gnmt-v100.json --cluster 4xV100@1GB/s "
                          "--minibatch 256 ";

Json json_of(const std::string& arguments) {
  const Answer answer = run_pipewright(arguments + " --json", "2>/dev/null");
  CHECK(answer.code == 0);
  auto json = parse_json(answer.text, "stdout");
  REQUIRE(json);
  return *json;
}

double number(const Json& json, const char* key) {
  const Json* value = json.find(key);
  REQUIRE(value);
  if (const auto* real = std::get_if<double>(&value->value())) return *real;
  const auto* whole = std::get_if<std::int64_t>(&value->value());
  REQUIRE(whole);
  return static_cast<double>(*whole);
}

}  // namespace

TEST_CASE("compare ranks every planner and says why the first is first") {
  const Json json = json_of("compare --method sync --microbatch 32" + kGnmt);
  const auto& plans = *json.find("plans")->if_array();
  CHECK(plans.size() == planners().size());
  double before = 0;
  for (const Json& plan : plans) {
    if (plan.find("refused")) continue;
    const double step = number(plan, "step_seconds");
    CHECK(step >= before);
    CHECK(step >= number(plan, "lower_bound_seconds"));
    CHECK(number(plan, "speedup") > 0);
    before = step;
  }
  CHECK(contains(*json.find("why")->if_string(), " is first, "));
}

TEST_CASE("buckets are not counted as stages") {
  const std::string plan =
      (fs::temp_directory_path() /
       ("pipewright_buckets_" + std::to_string(::getpid()) + ".json"))
          .string();
  const std::string cluster = " --cluster 4xV100@nvlink";
  REQUIRE(run_pipewright("plan --model gpt2 --minibatch 64 --planner "
                         "data-parallel -o " +
                         plan + cluster)
              .code == 0);
  const std::string page = plan + ".html";
  const std::string report = "report " + plan + cluster + " -o " + page;
  for (const std::string& command :
       {report, "validate " + plan, "schedule " + plan}) {
    CAPTURE(command);
    const Answer answer = run_pipewright(command);
    CHECK(answer.code == 0);
    CHECK(contains(answer.text, "1 stage (14 buckets)"));
    CHECK(!contains(answer.text, "14 stages"));
  }
  const std::string reported = run_pipewright(report).text;
  const std::string doubled = "oubling the speed of the devices of stage";
  const std::size_t first = reported.find(doubled);
  CHECK(first != std::string::npos);
  CHECK(reported.find(doubled, first + 1) == std::string::npos);
  CHECK(contains(run_pipewright("simulate " + plan + cluster).text,
                 "stage 0 is the bottleneck: "));
  for (const std::string& file : {plan, page}) fs::remove(file);
}

TEST_CASE("smaller microbatches are no way out where the weights do not fit") {
  const Answer answer = run_pipewright(
      "plan --model vgg16:classes=1000000 --cluster 2xT4 --minibatch 32 "
      "--planner balanced --microbatch 8");
  CHECK(answer.code == 78);
  CHECK(contains(answer.text,
                 "use devices with more memory: weights, gradients and "
                 "optimizer state alone take "));
  CHECK(!contains(answer.text, "smaller microbatches"));
}

TEST_CASE("devices that a plan does not use are named") {
  const std::string problem =
      " --model lenet --minibatch 64 --planner balanced --cluster 16xV100";
  CHECK(contains(run_pipewright("plan" + problem).text,
                 "3 of 16 devices are not used: V100.13..15\n"));
  const Json json = json_of("plan" + problem);
  CHECK(json.find("unused_devices")->if_array()->size() == 3);
  // Many devices of a stage are a range, not cut in the middle of names.
  const Answer all = run_pipewright(
      "plan --model gpt2 --minibatch 64 --planner data-parallel --cluster "
      "16xV100");
  CHECK(contains(all.text, " V100.0..15 "));
  CHECK(!contains(all.text, "not used"));
}

TEST_CASE("all methods may be asked for; what asynchronous ones change") {
  CHECK(contains(run_pipewright("plan --help").text,
                 "all: the one with the fastest plan"));
  const std::string problem =
      "plan --model lenet --minibatch 64 --cluster 4xV100 --planner pipedream";
  const std::string stale = "old when they are read, which changes training";
  CHECK(!contains(run_pipewright(problem).text, stale));
  CHECK(contains(run_pipewright(problem + " --method stash").text, stale));
  CHECK(run_pipewright(problem + " --method all").code == 0);
}

TEST_CASE("compare prints a table") {
  const Answer answer =
      run_pipewright("compare --budget 2 --microbatch 32" + kGnmt);
  CHECK(answer.code == 0);
  for (const auto& planner : planners())
    CHECK(contains(answer.text, planner->name()));
  CHECK(contains(answer.text, "No plan can be faster than "));
  // Asynchronous methods in a second table.
  CHECK(contains(answer.text, "Asynchronous plans "));
  for (const char* method : {"stash", "2bw", "pipemare"})
    CHECK(contains(answer.text, method));
  CHECK(contains(answer.text, "stale"));
}

TEST_CASE("a table without speedups does not explain them, and no 0 is -0") {
  const std::string problem =
      " --model alexnet --cluster 1xV100 --minibatch 16 --method ";
  const Answer stale = run_pipewright("compare" + problem + "stash");
  CHECK(stale.code == 0);
  CHECK(!contains(stale.text, "speedup"));
  CHECK(contains(stale.text, "bubble"));
  CHECK(!contains(stale.text, "-0 %"));
  const Answer sync = run_pipewright("compare" + problem + "sync");
  CHECK(contains(sync.text, " speedup  "));
  CHECK(contains(sync.text, "speedup: over data-parallel;"));
}

TEST_CASE("a plan whose cuts are between groups of layers says so") {
  const std::string command =
      "plan --planner pipedream --cluster 2x8xA100-80@nvlink/100GbE "
      "--minibatch 16 --microbatch 1 --budget 60 --model ";
  const Json json = json_of(command + "gpt2-xl");
  const double groups = number(json, "layer_groups");
  CHECK(groups > 100);
  CHECK(groups < 582);
  CHECK(contains(run_pipewright(command + "gpt2-xl").text,
                 "pipedream: cuts between " +
                     std::to_string(static_cast<int>(groups)) +
                     " groups of layers; a search over all 582 layers takes "
                     "too long\n"));
  CHECK(json_of(command + "gpt").find("layer_groups") == nullptr);
}

TEST_CASE("asynchronous methods have plans where the time is over") {
  const Json json = json_of("compare --budget 0.001 --microbatch 32" + kGnmt);
  int num_stale = 0;
  for (const Json& plan : *json.find("plans")->if_array())
    num_stale += *plan.find("method")->if_string() != "sync" &&
                 number(plan, "step_seconds") > 0;
  CHECK(num_stale == 3);
}

TEST_CASE("plan --json has the documented keys, and simulate agrees") {
  const std::string file =
      (fs::temp_directory_path() / ("plan_test." + std::to_string(::getpid())))
          .string();
  const std::string sources[] = {"--profile " + kProfiles + "vgg16-v100.json",
                                 "--model mlp"};
  for (const std::string& source : sources)
    for (const char* method : {"sync", "stash"}) {
      CAPTURE(source);
      CAPTURE(method);
      const std::string where = " " + source + " --cluster 3xV100@1GB/s ";
      const Json plan = json_of("plan --planner pipedream --minibatch 64 -o " +
                                file + " --method " + method + where);
      for (const char* key :
           {"planner", "method", "schedule", "microbatch", "microbatches",
            "step_seconds", "throughput", "bubble", "bottleneck_seconds",
            "lower_bound_seconds", "planning_seconds", "derived_times"})
        CHECK(plan.find(key));
      for (const Json& stage : *plan.find("stages")->if_array())
        for (const char* key :
             {"layers", "backward_layers", "devices", "memory_bytes"})
          CHECK(stage.find(key));
      const Json simulated = json_of("simulate " + file + where);
      CHECK(number(simulated, "step_seconds") == number(plan, "step_seconds"));
    }
  fs::remove(file);
}

TEST_CASE("plan says which times were not measured at its sizes") {
  const std::string line = "times at microbatch ";
  CHECK(contains(
      run_pipewright("plan --planner balanced --microbatch 16" + kGnmt).text,
      line + "16 are in proportion to those measured at 32\n"));
  CHECK_FALSE(contains(
      run_pipewright("plan --planner balanced --microbatch 32" + kGnmt).text,
      line));
}

TEST_CASE("plan is at least as good as any planner alone") {
  const std::string problem = " --microbatch 32,64" + kGnmt;
  const double best = number(json_of("plan" + problem), "step_seconds");
  for (const char* planner : {"data-parallel", "balanced", "pipedream"})
    CHECK(best <=
          number(json_of("plan --planner " + std::string(planner) + problem),
                 "step_seconds"));
}

TEST_CASE("each kind of wrong input has its exit code") {
  CHECK(run_pipewright("plan --minibatch 8 --cluster 2xV100").code == 2);
  CHECK(run_pipewright("plan --model mlp --cluster 2xV100").code == 2);
  CHECK(run_pipewright(
            "plan --model mlp --profile x --cluster 2xV100 --minibatch 8")
            .code == 2);
  const std::string two = " --model mlp --cluster 2xV100 --minibatch 8 ";
  CHECK(run_pipewright("plan --microbatch 3" + two).code == 78);
  CHECK(run_pipewright("plan --profile /no/such --cluster 2xV100 --minibatch 8")
            .code == 66);
  const Answer planner = run_pipewright("plan --planner pipdream" + two);
  CHECK(planner.code == 78);
  CHECK(contains(planner.text, "did you mean \"pipedream\"?"));
  CHECK(run_pipewright("plan --method stach" + two).code == 78);
  const Answer memory =
      run_pipewright("plan --planner balanced --memory 1KB" + two);
  CHECK(memory.code == 78);
  CHECK(contains(memory.text, "no plan of balanced fits 1 kB: stage "));
  CHECK(run_pipewright("plan --memory much" + two).code == 2);
  CHECK(run_pipewright("compare --memory 1KB" + two).code == 78);
  CHECK(run_pipewright("plan -o /no/such/folder/p.json" + two).code == 73);
}

// 1 word of weights and 1 of gradients, and of optimizer state 1 in float32; in
// bfloat16 words are half as large, and masters and momentum are float32.
TEST_CASE("number types: named, bfloat16 where there are units, with masters") {
  const std::string rest =
      " --minibatch 8 --microbatch 8 --planner data-parallel ";
  const Json half =
      json_of("plan --model mlp:hidden=4096 --cluster 1xA100-40" + rest);
  const Json whole = json_of(
      "plan --model mlp:hidden=4096,type=float32 --cluster 1xA100-40" + rest);
  const Json old =
      json_of("plan --model mlp:hidden=4096 --cluster 1xV100" + rest);
  CHECK(*half.find("number_type")->if_string() == "bfloat16");
  CHECK(*whole.find("number_type")->if_string() == "float32");
  CHECK(*old.find("number_type")->if_string() == "float32");
  CHECK(number(half, "step_seconds") < number(whole, "step_seconds"));
  // 12 bytes per weight in both, and activations of half the size in one.
  CHECK(number(half, "memory_bytes") <= number(whole, "memory_bytes"));
  CHECK(number(half, "memory_bytes") > 0.9 * number(whole, "memory_bytes"));
  const Answer said =
      run_pipewright("plan --model mlp --cluster 2xH100" + rest);
  CHECK(contains(said.text, "samples, in bfloat16 with float32 masters\n"));
}

TEST_CASE("--minibatch auto: the smallest near the largest throughput") {
  const Json plan = json_of(
      "plan --model mlp --cluster 2xV100 --minibatch auto --planner balanced");
  const auto& tried = *plan.find("minibatches")->if_array();
  REQUIRE(tried.size() == 8);
  double best = 0;
  for (const Json& each : tried)
    best = std::max(best, number(each, "throughput"));
  const double chosen =
      number(plan, "microbatch") * number(plan, "microbatches");
  for (const Json& each : tried) {
    const bool is_enough = number(each, "throughput") >= 0.98 * best;
    CHECK((number(each, "minibatch") < chosen) <= !is_enough);
    if (number(each, "minibatch") == chosen) CHECK(is_enough);
  }
}

TEST_CASE("--stages is obeyed, or the plan is rejected") {
  const std::string four =
      " --model alexnet --cluster 4xV100@1GB/s --minibatch 8 --stages ";
  for (const int stages : {1, 2, 3, 4}) {
    const Json plan = json_of("plan" + four + std::to_string(stages));
    CHECK(plan.find("stages")->if_array()->size() == std::size_t(stages));
  }
  const Answer other = run_pipewright("plan --planner balanced" + four + "3");
  CHECK(other.code == 78);
  CHECK(contains(other.text, "balanced made 4 stages instead of 3"));
  const Answer many = run_pipewright("plan" + four + "39");
  CHECK(many.code == 78);
  CHECK(contains(many.text, "found no plan of 39 stages that fits"));
}

// Microbatch sizes depend on the number of devices, so the suggestion must hold
// for the command that the user types next.
TEST_CASE("the suggested cluster is large enough, one device less is not") {
  const std::string rest = "xV100@nvlink --minibatch 16 --planner balanced";
  const Answer answer =
      run_pipewright("plan --model gpt2-xl --cluster 1" + rest);
  CHECK(answer.code == 78);
  const std::string mark = " devices are enough (--cluster ";
  const std::size_t end = answer.text.find(mark);
  REQUIRE(end != std::string::npos);
  const std::size_t begin = answer.text.rfind('(', end) + 1;
  const int devices = std::stoi(answer.text.substr(begin, end - begin));
  CHECK(devices > 1);
  const std::string model = "plan --model gpt2-xl --cluster ";
  CHECK(run_pipewright(model + std::to_string(devices) + rest).code == 0);
  CHECK(run_pipewright(model + std::to_string(devices - 1) + rest).code == 78);
}

TEST_CASE("a layer split over two devices: other commands build the model") {
  const std::string zoo = "mlp:layers=3,hidden=1024,features=1024,classes=2 ";
  const std::string stem = (fs::temp_directory_path() /
                            ("pipewright_split_" + std::to_string(::getpid())))
                               .string();
  const std::string file = stem + "_model.json";
  REQUIRE(run_pipewright("models " + zoo + "--json > " + file).code == 0);
  std::string model = zoo;
  SUBCASE("of the zoo") {}
  SUBCASE("in a file") { model = file + " "; }
  const std::string plan = stem + "_plan.json", profile = stem + ".json";
  const Json json = json_of("plan --planner bapipe --model " + model +
                            "--cluster 2xVCU118 --minibatch 512 --microbatch "
                            "16 -o " +
                            plan);
  const Json& first = json.find("stages")->if_array()->front();
  const auto& layers = *first.find("layers")->if_array();
  CHECK(*layers.back().if_string() == "hidden1.linear.part0");
  const double step = number(json, "step_seconds");
  CHECK(step >= number(json, "lower_bound_seconds"));
  const std::string simulate = "simulate " + plan + " --cluster 2xVCU118";
  CHECK(number(json_of(simulate), "step_seconds") == doctest::Approx(step));
  // A profile of the whole model serves, too.
  REQUIRE(run_pipewright("profile " + model +
                         "--analytic --device VCU118 --microbatch 16 -o " +
                         profile)
              .code == 0);
  CHECK(number(json_of(simulate + " --profile " + profile), "step_seconds") ==
        doctest::Approx(step));
  CHECK(run_pipewright("validate " + plan + " --cluster 2xVCU118").code == 0);
  const Answer alone = run_pipewright("validate " + plan);
  CHECK(alone.code == 0);
  CHECK(contains(alone.text, "split=hidden1.linear@"));
  // Whole layers: what other planners, and auto, plan.
  const Json whole = json_of("plan --planner balanced --model " + model +
                             "--cluster 2xVCU118 --minibatch 512 --microbatch "
                             "16");
  CHECK(number(whole, "step_seconds") > 1.1 * step);
  for (const std::string& each : {plan, profile, file}) fs::remove(each);
}

TEST_CASE("plan --set switches parts of a planner off") {
  const std::string bapipe = "plan --planner bapipe --microbatch 16" + kGnmt;
  const Json whole = json_of(bapipe);
  const Json without = json_of(bapipe + "--set 1f1b-so=off");
  CHECK(*whole.find("schedule")->if_string() == "1f1b-so");
  CHECK(*without.find("schedule")->if_string() == "1f1b");
  CHECK(number(without, "step_seconds") > number(whole, "step_seconds"));
  CHECK(number(json_of(bapipe + "--set 1f1b-so=on"), "step_seconds") ==
        number(whole, "step_seconds"));
  for (const char* wrong : {"--set coarse", "--set coarse-partition=0",
                            "--set =off", "--set separate-cuts=off"}) {
    const Answer answer = run_pipewright(bapipe + wrong);
    CHECK(answer.code == 78);
    CHECK(contains(answer.text, "part"));
  }
  CHECK(run_pipewright("plan --set replicas=off" + kGnmt).code == 78);
}

}  // namespace pipewright::cli
