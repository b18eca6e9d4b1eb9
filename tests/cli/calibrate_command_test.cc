// pipewright calibrate: what it finds is what slowed the runs down.

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "pipewright/base/files.h"
#include "pipewright/base/json.h"
#include "pipewright/base/text.h"
#include "tests/answer.h"

namespace pipewright {
namespace {

namespace fs = std::filesystem;

class CalibrationFolder {
 public:
  CalibrationFolder()
      : path_(fs::temp_directory_path() /
              ("pipewright-calibrate-" + std::to_string(::getpid()))) {
    fs::create_directories(path_);
  }
  ~CalibrationFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

double number(const Json& json, const std::string& key) {
  return parse_real(json.find(key)->to_line()).value();
}

// A cluster of two, slower than its data sheet says.
std::string cluster_text(const std::string& overheads,
                         const std::string& bandwidth) {
  return R"({"format": "pipewright/cluster", "version": 1, "name": "pair",
  "kinds": [{"name": "V100", "peak": {"float32": 15.7e12},
             "achievable": {"float32": 12.6e12}, "memory": "16GB",
             "memory_bandwidth": "900GB/s")" +
         overheads + R"(}],
  "devices": [{"kind": "V100", "count": 2}],
  "within_hosts": {"bandwidth": ")" +
         bandwidth + "\", \"latency\": \"5us\"}}";
}

struct RunShape {
  int layers = 0, microbatch = 0;
};
const std::vector<RunShape> kOneModel = {{4, 1}, {4, 2}, {4, 4}, {4, 8}};

// Plans of several shapes, and what their steps would take on the slow cluster.
std::string measured_pairs(const CalibrationFolder& folder,
                           const std::vector<RunShape>& shapes) {
  std::string pairs;
  for (const RunShape& shape : shapes) {
    const std::string layers = std::to_string(shape.layers),
                      microbatch = std::to_string(shape.microbatch);
    const std::string plan =
        folder / ("plan" + layers + "-" + microbatch + ".json");
    REQUIRE(run_pipewright("plan --model gpt:layers=" + layers +
                           " --planner uniform --cluster " +
                           (folder / "plain.json") + " --minibatch 16 " +
                           "--microbatch " + microbatch + " -o " + plan)
                .code == 0);
    const Answer answer = run_pipewright(
        "simulate " + plan + " --cluster " + (folder / "slow.json") + " --json",
        "");
    const auto json = parse_json(answer.text, "stdout");
    REQUIRE(json);
    pairs += plan + " " + json->find("step_seconds")->to_line() + " ";
  }
  return pairs;
}

Json calibrated(const CalibrationFolder& folder, const std::string& overheads,
                const std::string& bandwidth,
                const std::vector<RunShape>& shapes = kOneModel) {
  REQUIRE(write_file(folder / "plain.json", cluster_text("", "10GB/s")));
  REQUIRE(write_file(folder / "slow.json", cluster_text(overheads, bandwidth)));
  const Answer answer =
      run_pipewright("calibrate " + measured_pairs(folder, shapes) +
                         " --cluster " + (folder / "plain.json") + " -o " +
                         (folder / "better.json") + " --json",
                     "2>/dev/null");
  CHECK(answer.code == 0);
  const auto json = parse_json(answer.text, "stdout");
  REQUIRE(json);
  for (const Json& run : *json->find("runs")->if_array()) {
    const double measured = number(run, "step_seconds");
    CHECK(number(run, "calibrated_seconds") ==
          doctest::Approx(measured).epsilon(0.01));
    CHECK(number(run, "left_out_seconds") ==
          doctest::Approx(measured).epsilon(0.03));
  }
  return *json;
}

}  // namespace

TEST_CASE("an overhead per action is found, and nothing else") {
  CalibrationFolder folder;
  const Json json =
      calibrated(folder, ", \"action_overhead\": \"2ms\"", "10GB/s");
  CHECK(number(json, "action_overhead_seconds") ==
        doctest::Approx(2e-3).epsilon(0.02));
  CHECK(number(json, "layer_overhead") < 0.01);
  const Answer shown = run_pipewright("cluster " + (folder / "better.json"));
  CHECK(shown.code == 0);
  CHECK(contains(shown.text, "more per action"));
}

TEST_CASE("layers that take longer are found") {
  CalibrationFolder folder;
  const Json json = calibrated(folder, ", \"layer_overhead\": 0.3", "10GB/s");
  CHECK(number(json, "layer_overhead") == doctest::Approx(0.3).epsilon(0.02));
}

// One model cannot tell it from an overhead per action.
TEST_CASE("what gradients take is found by models of different depth") {
  CalibrationFolder folder;
  const Json json = calibrated(folder, ", \"gradient_overhead\": \"1ms\"",
                               "10GB/s", {{2, 1}, {2, 8}, {8, 1}, {8, 8}});
  CHECK(number(json, "gradient_overhead_seconds") ==
        doctest::Approx(1e-3).epsilon(0.02));
  CHECK(number(json, "action_overhead_seconds") == 0);
}

TEST_CASE("nothing is corrected where predictions are right") {
  CalibrationFolder folder;
  const Json json = calibrated(folder, "", "10GB/s");
  CHECK(number(json, "layer_overhead") == 0);
  CHECK(number(json, "action_overhead_seconds") == 0);
  CHECK(number(json, "link_rate") == 1);
}

TEST_CASE("calibrate says what is wrong") {
  CHECK(run_pipewright("calibrate").code == 2);
  CHECK(run_pipewright("calibrate plan.json --cluster 2xV100").code == 2);
  const Answer answer =
      run_pipewright("calibrate plan.json soon --cluster 2xV100");
  CHECK(answer.code == 2);
  CHECK(contains(answer.text, "\"soon\" is not the time of a step"));
  CHECK(run_pipewright("calibrate /no/plan.json 1s --cluster 2xV100").code ==
        66);
  CHECK(run_pipewright("calibrate --runs /no/runs.json").code == 66);
}

}  // namespace pipewright
