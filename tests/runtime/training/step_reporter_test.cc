// Steps from losses of parts of microbatches that come in any order.

#include "pipewright/runtime/training/step_reporter.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

namespace pipewright {
namespace {

struct Part {
  std::int64_t microbatch = 0;
  std::int32_t first = 0, end = 0;
  double mean = 0;
};

// 6 steps of 3 microbatches of 4 samples, by two replicas that split them.
std::vector<Part> some_parts(std::mt19937& random) {
  std::uniform_real_distribution<double> loss(0, 3);
  std::vector<Part> parts;
  for (std::int64_t m = 0; m < 18; ++m) {
    parts.push_back({m, 0, 3, loss(random)});
    parts.push_back({m, 3, 4, loss(random)});
  }
  return parts;
}

TEST_CASE("every step once, in order, whatever the order of its parts") {
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    std::vector<Part> parts = some_parts(random);
    std::vector<double> expected;
    for (int s = 0; s < 6; ++s) {
      double sum = 0;
      for (int m = 0; m < 3; ++m) {
        const Part &a = parts[s * 6 + m * 2], &b = parts[s * 6 + m * 2 + 1];
        sum += a.mean * 3 / 4 + b.mean * 1 / 4;
      }
      expected.push_back(sum / 3);
    }
    std::vector<std::int64_t> steps;
    std::vector<double> losses;
    StepReporter reporter(3, 4, [&](std::int64_t step, double loss, Seconds) {
      steps.push_back(step);
      losses.push_back(loss);
    });
    reporter.begin(0);
    std::shuffle(parts.begin(), parts.end(), random);
    for (const Part& part : parts)
      reporter.add(part.microbatch, part.first, part.end, part.mean);
    reporter.wait();
    CHECK(steps == std::vector<std::int64_t>{1, 2, 3, 4, 5, 6});
    CHECK(losses == expected);
  }
}

TEST_CASE("begin() forgets what was not complete") {
  std::vector<std::int64_t> steps;
  StepReporter reporter(
      2, 1, [&](std::int64_t step, double, Seconds) { steps.push_back(step); });
  reporter.begin(4);
  reporter.add(8, 0, 1, 1);
  reporter.wait();
  CHECK(steps.empty());
  reporter.begin(4);
  reporter.add(9, 0, 1, 1);
  reporter.wait();
  CHECK(steps.empty());
  reporter.add(8, 0, 1, 1);
  reporter.wait();
  CHECK(steps == std::vector<std::int64_t>{5});
}

}  // namespace
}  // namespace pipewright
