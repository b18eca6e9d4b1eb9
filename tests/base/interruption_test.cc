// Computations that end in the middle.

#include "pipewright/base/interruption.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <thread>

namespace pipewright {
namespace {

// As many rounds as asked for, with a point in each; -1: interrupted.
int rounds_done(const std::function<bool()>& is_over, int rounds) {
  return interruptible(
      is_over,
      [&] {
        int done = 0;
        for (; done < rounds; ++done) interruption_point();
        return done;
      },
      [] { return -1; });
}

}  // namespace

TEST_CASE("without a scope a point does nothing") { interruption_point(); }

TEST_CASE("work ends at the first point after it is over") {
  for (int looks = 0; looks < 20; ++looks) {
    int asked = 0;
    const auto is_over = [&] { return asked++ >= looks; };
    CHECK(rounds_done(is_over, 10) == (looks < 10 ? -1 : 10));
    CHECK(asked == std::min(looks + 1, 10));
  }
}

TEST_CASE("the innermost scope counts, and ends with its work") {
  int outer = 0;
  const auto count = [&outer] { return ++outer < 0; };
  const int done = interruptible(
      count,
      [] {
        const int inner = rounds_done([] { return true; }, 5);
        interruption_point();
        return inner;
      },
      [] { return 7; });
  CHECK(done == -1);
  CHECK(outer == 1);
  interruption_point();
  CHECK(outer == 1);
}

TEST_CASE("threads are on their own") {
  const std::function<bool()> over = [] { return true; };
  const InterruptionScope scope(over);
  std::thread([] { interruption_point(); }).join();
  CHECK_THROWS_AS(interruption_point(), Interruption);
}

}  // namespace pipewright
