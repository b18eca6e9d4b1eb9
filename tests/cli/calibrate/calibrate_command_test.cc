// pipewright calibrate: what it finds is what slowed the runs down.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "pipewright/cluster/cluster.h"
#include "tests/cli/calibrate/slow_cluster.h"

namespace pipewright {
namespace {

// Predictions with what is found are right, also of runs that are left out.
Json calibrated(const CalibrationFolder& folder, const ClusterShape& slow,
                const ClusterShape& plain = {},
                const std::vector<RunShape>& shapes = kOneModel) {
  std::string pairs;
  for (const SlowRun& run : slow_runs(folder, plain, slow, shapes))
    pairs += run.plan + " " + std::to_string(run.step) + " ";
  const Json json =
      json_of("calibrate " + pairs + " --cluster " + (folder / "plain.json") +
              " -o " + (folder / "better.json"));
  for (const Json& run : *json.find("runs")->if_array()) {
    const double measured = number(run, "step_seconds");
    CHECK(number(run, "calibrated_seconds") ==
          doctest::Approx(measured).epsilon(0.01));
    CHECK(number(run, "left_out_seconds") ==
          doctest::Approx(measured).epsilon(0.03));
  }
  CHECK(json.find("at_limit")->to_line() == "[]");
  return json;
}

}  // namespace

TEST_CASE("an overhead per action is found, and nothing else") {
  CalibrationFolder folder;
  const Json json = calibrated(folder, {", \"action_overhead\": \"2ms\""});
  CHECK(number(json, "action_overhead_seconds") ==
        doctest::Approx(2e-3).epsilon(0.02));
  CHECK(number(json, "layer_overhead") < 0.01);
  const Answer shown = run_pipewright("cluster " + (folder / "better.json"));
  CHECK(shown.code == 0);
  CHECK(contains(shown.text, "more per action"));
}

TEST_CASE("layers that take longer are found") {
  CalibrationFolder folder;
  const Json json = calibrated(folder, {", \"layer_overhead\": 0.3"});
  CHECK(number(json, "layer_overhead") == doctest::Approx(0.3).epsilon(0.02));
}

// One model cannot tell it from an overhead per action.
TEST_CASE("what gradients take is found by models of different depth") {
  CalibrationFolder folder;
  const Json json =
      calibrated(folder, {", \"gradient_overhead\": \"1ms\""}, {}, kTwoModels);
  CHECK(number(json, "gradient_overhead_seconds") ==
        doctest::Approx(1e-3).epsilon(0.02));
  CHECK(number(json, "action_overhead_seconds") == 0);
}

TEST_CASE("links that are slower than their data sheet are found") {
  CalibrationFolder folder;
  const Json json = calibrated(folder, {"", "2GB/s"});
  CHECK(number(json, "link_rate") == doctest::Approx(0.2).epsilon(0.02));
  CHECK(number(json, "layer_overhead") == 0);
  const auto better = read_file(folder / "better.json");
  REQUIRE(better);
  CHECK(!contains(*better, "10000000000"));
}

TEST_CASE("transfers that block are found") {
  CalibrationFolder folder;
  const Json json =
      calibrated(folder, {", \"overlaps_communication\": 0.25", "2GB/s"},
                 {"", "2GB/s"}, kTwoModels);
  CHECK(number(json, "overlap") == doctest::Approx(0.25).epsilon(0.05));
  CHECK(number(json, "link_rate") == 1);
}

// Neither explains the steps without the other.
TEST_CASE("slow links and transfers that block are found together") {
  CalibrationFolder folder;
  auto runs = slow_runs(
      folder, {}, {", \"overlaps_communication\": 0.25", "2GB/s"}, kManySizes);
  const std::vector<SlowRun> left_out(runs.end() - 3, runs.end());
  runs.resize(runs.size() - 3);
  const Json json =
      json_of(calibration_of(folder, runs) + " -o " + (folder / "better.json"));
  CHECK(number(json, "link_rate") == doctest::Approx(0.2).epsilon(0.05));
  CHECK(number(json, "overlap") == doctest::Approx(0.25).epsilon(0.15));
  for (const SlowRun& run : left_out) {
    const auto error_on = [&](const std::string& cluster) {
      const Json timeline =
          json_of("simulate " + run.plan + " --cluster " + (folder / cluster));
      return std::abs(number(timeline, "step_seconds") / run.step - 1);
    };
    CHECK(error_on("plain.json") > 0.05);
    CHECK(error_on("better.json") < 0.005);
  }
}

TEST_CASE("the median and the largest error are those of the rows") {
  CalibrationFolder folder;
  const std::vector<SlowRun> runs =
      slow_runs(folder, {}, {", \"layer_overhead\": 1.5"}, kTwoModels);
  const std::string command = calibration_of(folder, runs);
  const auto before = numbers(json_of(command), "before_seconds");
  double largest = 0;
  for (std::size_t run = 0; run < runs.size(); ++run)
    largest = std::max(largest, std::abs(before[run] / runs[run].step - 1));
  const std::string text = run_pipewright(command).text;
  const std::size_t row = text.find("\nlargest of steps ");
  REQUIRE(row != std::string::npos);
  const std::string shown = to_text(std::round(largest * 1000) / 10) + " %";
  CHECK(contains(text.substr(row, text.find('\n', row + 1) - row), shown));
}

TEST_CASE("nothing is corrected where predictions are right") {
  CalibrationFolder folder;
  const Json json = calibrated(folder, {});
  CHECK(number(json, "layer_overhead") == 0);
  CHECK(number(json, "action_overhead_seconds") == 0);
  CHECK(number(json, "link_rate") == 1);
  const std::string better = folder / "better.json";
  const auto runs = slow_runs(folder, {}, {}, kOneModel);
  const Answer answer =
      run_pipewright(calibration_of(folder, runs) + " -o " + better);
  CHECK(contains(answer.text, "nothing to correct was found: of the"));
  CHECK(contains(answer.text, "better.json, the cluster as it was"));
  CHECK(load_cluster(better).value() ==
        load_cluster(folder / "plain.json").value());
}

TEST_CASE("base memory and fragmentation are found") {
  CalibrationFolder folder;
  const auto runs = slow_runs(
      folder, {}, {", \"base_memory\": \"1GB\", \"fragmentation\": 0.1"},
      kManyShapes);
  const Json json = json_of(calibration_of(folder, runs, true));
  CHECK(number(json, "base_memory_bytes") ==
        doctest::Approx(1e9).epsilon(0.02));
  CHECK(number(json, "fragmentation") == doctest::Approx(0.1).epsilon(0.02));
  const auto left_out = numbers(json, "left_out_bytes");
  for (std::size_t run = 0; run < runs.size(); ++run)
    CHECK(left_out[run] == doctest::Approx(runs[run].memory).epsilon(0.01));
}

TEST_CASE("memory that is now above and now below is not corrected") {
  CalibrationFolder folder;
  auto runs = slow_runs(folder, {}, {}, kOneModel);
  for (std::size_t run = 0; run < runs.size(); ++run)
    runs[run].memory *= run % 2 == 0 ? 1.06 : 0.95;
  const std::string command = calibration_of(folder, runs, true);
  const Json json = json_of(command);
  CHECK(number(json, "base_memory_bytes") == 0);
  CHECK(number(json, "fragmentation") == 0);
  CHECK(contains(run_pipewright(command).text, "nothing to correct was found"));
}

TEST_CASE("a value at the limit of what is tried is named") {
  CalibrationFolder folder;
  const auto at_limit = [&](const ClusterShape& plain,
                            const ClusterShape& slow) {
    const auto runs = slow_runs(folder, plain, slow, kTwoModels);
    const std::string command = calibration_of(folder, runs);
    CHECK(contains(run_pipewright(command).text,
                   "this is the limit of what is tried"));
    return json_of(command).find("at_limit")->to_line();
  };
  CHECK(at_limit({}, {", \"layer_overhead\": 1.2"}) == R"(["layer_overhead"])");
  CHECK(at_limit({"", "1GB/s"}, {"", "20GB/s"}) == R"(["link_rate"])");
}

TEST_CASE("-o corrects one cluster, and asks which if runs were on several") {
  CalibrationFolder folder;
  slow_runs(folder, {}, {", \"layer_overhead\": 0.3"}, kOneModel);
  REQUIRE(write_file(folder / "other.json",
                     cluster_text({"", "5GB/s"}, "other pair")));
  REQUIRE(write_file(folder / "runs.json",
                     R"({"format": "pipewright/runs", "version": 1, "runs": [
    {"plan": "plan4-1.json", "cluster": "plain.json", "step_seconds": 0.1},
    {"plan": "plan4-8.json", "cluster": "other.json", "step_seconds": 0.1}]})"));
  const std::string command = "calibrate --runs " + (folder / "runs.json");
  CHECK(run_pipewright(command).code == 0);
  const std::string better = folder / "better.json";
  const Answer refused = run_pipewright(command + " -o " + better);
  CHECK(refused.code == 78);
  for (const char* part :
       {"\"pair\"", "plain.json", "\"other pair\"", "other.json", "--cluster"})
    CHECK(contains(refused.text, part));
  CHECK(!std::filesystem::exists(better));
  CHECK(run_pipewright(command + " -o " + better + " --cluster " +
                       (folder / "other.json"))
            .code == 0);
  const auto written = read_file(better);
  REQUIRE(written);
  CHECK(contains(*written, "\"other pair\""));
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
