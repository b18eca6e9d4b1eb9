#include "pipewright/runtime/training/step_times.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

namespace pipewright {
namespace {

TEST_CASE("the median is that of all steps, each with its piece's time") {
  std::mt19937 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    StepTimes times;
    std::vector<double> steps;
    const int pieces = 2 + static_cast<int>(random() % 6);
    for (int p = 0; p < pieces; ++p) {
      const double step = 1.0 + static_cast<double>(random() % 9);
      const int count = 1 + static_cast<int>(random() % 5);
      times.add(Seconds(step), count, true);
      // The first of three pieces or more warms up.
      if (p > 0 || pieces == 2) steps.insert(steps.end(), count, step);
      CHECK(times.latest() == Seconds(step));
    }
    std::sort(steps.begin(), steps.end());
    CHECK(times.median() == Seconds(steps[steps.size() / 2]));
  }
}

TEST_CASE("settled pieces count alone, where others came before them") {
  StepTimes times;
  CHECK(times.is_empty());
  CHECK(times.median() == Seconds(0));
  times.add(Seconds(9), 100, false);
  CHECK(times.median() == Seconds(9));
  times.add(Seconds(1), 4, true);
  times.add(Seconds(2), 5, true);
  CHECK(times.median() == Seconds(2));
}

}  // namespace
}  // namespace pipewright
