// The left-out errors of pipewright calibrate are honest, and noise alone is
// mostly not corrected.

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "tests/cli/calibrate/slow_cluster.h"

namespace pipewright {
namespace {

// As if they were measured on a machine that is not quiet.
std::vector<SlowRun> noisy(std::vector<SlowRun> runs, std::mt19937& random) {
  std::normal_distribution<double> noise(0, 0.05);
  for (SlowRun& run : runs) {
    run.step *= std::exp(noise(random));
    run.memory *= std::exp(noise(random));
  }
  return runs;
}

bool corrects_times(const Json& json) {
  return number(json, "layer_overhead") > 0 || number(json, "link_rate") != 1 ||
         number(json, "gradient_overhead_seconds") > 0 ||
         number(json, "action_overhead_seconds") > 0 ||
         number(json, "step_overhead_seconds") > 0 ||
         json.find("overlap")->to_line() != "null";
}

// Root mean square of ln(predicted / true).
double error(const std::vector<double>& steps,
             const std::vector<SlowRun>& truth) {
  double sum = 0;
  for (std::size_t run = 0; run < truth.size(); ++run)
    sum += std::pow(std::log(steps[run] / truth[run].step), 2);
  return std::sqrt(sum / static_cast<double>(truth.size()));
}

}  // namespace

// Neither which parameters are fitted nor their values nor the range of values
// that are tried may depend on a run that is left out.
TEST_CASE("what a run measured does not change its left-out prediction") {
  CalibrationFolder folder;
  std::mt19937 random(1);
  const auto runs = noisy(
      slow_runs(folder, {}, {", \"action_overhead\": \"5ms\""}, kOneModel),
      random);
  const auto before =
      numbers(json_of(calibration_of(folder, runs)), "left_out_seconds");
  for (std::size_t run = 0; run < runs.size(); ++run)
    for (const double factor : {0.3, 4.0}) {
      auto others = runs;
      others[run].step *= factor;
      const auto after =
          numbers(json_of(calibration_of(folder, others)), "left_out_seconds");
      CHECK(after[run] == before[run]);
      CHECK(after != before);
    }
}

TEST_CASE("of more than eight runs one group of eight is left out at a time") {
  CalibrationFolder folder;
  auto runs = slow_runs(folder, {}, {", \"layer_overhead\": 0.3"}, kManyShapes);
  REQUIRE(runs.size() == 10);
  const auto before =
      numbers(json_of(calibration_of(folder, runs)), "left_out_seconds");
  runs[1].step *= 3;  // its group: 1 and 9
  const std::string command = calibration_of(folder, runs);
  const Json json = json_of(command);
  CHECK(number(json, "left_out_groups") == 8);
  const auto after = numbers(json, "left_out_seconds");
  for (std::size_t run = 0; run < runs.size(); ++run)
    CHECK((after[run] == before[run]) == (run % 8 == 1));
  CHECK(contains(run_pipewright(command).text, "left out in 8 groups"));
}

TEST_CASE("noise alone is mostly left as it is") {
  CalibrationFolder folder;
  const auto truth = slow_runs(folder, {}, {}, kManyShapes);
  std::mt19937 random(2);
  int trials = 0, corrected = 0, memory_corrected = 0;
  for (const std::ptrdiff_t num_runs : {4, 6, 8}) {
    const std::vector<SlowRun> some(truth.begin(), truth.begin() + num_runs);
    for (int trial = 0; trial < 8; ++trial) {
      const Json json =
          json_of(calibration_of(folder, noisy(some, random), true));
      ++trials;
      corrected += corrects_times(json);
      memory_corrected += number(json, "base_memory_bytes") > 0 ||
                          number(json, "fragmentation") > 0;
    }
  }
  MESSAGE(corrected << " of times and " << memory_corrected << " of memory in "
                    << trials);
  CHECK(corrected * 6 <= trials);
  CHECK(memory_corrected * 6 <= trials);
}

TEST_CASE("what slowed noisy runs down is found") {
  CalibrationFolder folder;
  std::mt19937 random(3);
  const auto truth =
      slow_runs(folder, {}, {", \"action_overhead\": \"10ms\""}, kManyShapes);
  const std::vector<SlowRun> some(truth.begin(), truth.begin() + 6);
  int found = 0;
  for (int trial = 0; trial < 8; ++trial) {
    const Json json = json_of(calibration_of(folder, noisy(some, random)));
    found += std::abs(number(json, "action_overhead_seconds") - 10e-3) < 2e-3;
    CHECK(error(numbers(json, "calibrated_seconds"), some) <
          error(numbers(json, "before_seconds"), some) / 3);
  }
  CHECK(found >= 6);
}

}  // namespace pipewright
