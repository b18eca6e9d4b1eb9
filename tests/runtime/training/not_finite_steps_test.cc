// Which steps are repeated and skipped, without a model; that training does so
// is in not_finite_policy_test.cc.

#include "pipewright/runtime/training/not_finite_steps.h"

#include <doctest/doctest.h>

namespace pipewright {
namespace {

using Next = NotFiniteSteps::Next;

TEST_CASE("stop ends at once, and so does a state that is gone") {
  NotFiniteSteps stop(NotFinitePolicy::Stop);
  CHECK(stop.after(4, 10, true, true).next == Next::End);
  NotFiniteSteps skip(NotFinitePolicy::Skip);
  CHECK(skip.after(4, 10, false, true).next == Next::End);
}

TEST_CASE("a fault that does not come back costs a repetition") {
  for (auto policy : {NotFinitePolicy::Repeat, NotFinitePolicy::Skip}) {
    NotFiniteSteps steps(policy);
    CHECK(!steps.is_repeated(4));
    CHECK(steps.after(4, 7, true, true).next == Next::Repeat);
    for (std::int64_t done : {4, 5, 6}) {
      CHECK(steps.is_repeated(done));
      CHECK(steps.ends_repetition(done + 1) == (done == 6));
    }
    CHECK(!steps.is_repeated(7));
    CHECK(!steps.ends_repetition(8));
  }
}

TEST_CASE("a step that stays bad ends training, or is skipped") {
  NotFiniteSteps repeat(NotFinitePolicy::Repeat);
  repeat.after(4, 7, true, true);
  CHECK(repeat.after(5, 6, true, true).next == Next::End);
  NotFiniteSteps skip(NotFinitePolicy::Skip);
  skip.after(4, 7, true, true);
  const auto verdict = skip.after(5, 6, true, true);
  CHECK(verdict.next == Next::Skip);
  CHECK(verdict.why == ", also when it was repeated");
  CHECK(!skip.is_repeated(6));
  NotFiniteSteps last(NotFinitePolicy::Skip);
  last.after(0, 1, true, false);
  CHECK(last.after(0, 1, true, false).next == Next::End);
}

// Every step is bad from some step on, until training ends.
std::int64_t skipped_before_the_end(NotFiniteSteps& steps, std::int64_t done) {
  for (std::int64_t skipped = 0;; ++skipped, ++done) {
    REQUIRE(steps.after(done, done + 1, true, true).next == Next::Repeat);
    const auto verdict = steps.after(done, done + 1, true, true);
    if (verdict.next == Next::End) {
      CHECK(verdict.why ==
            ", also when it was repeated; the 10 steps before were skipped");
      return skipped;
    }
  }
}

TEST_CASE("ten steps in a row are skipped, however many came before") {
  NotFiniteSteps steps(NotFinitePolicy::Skip);
  for (std::int64_t done = 0; done < 40; done += 2) {  // every other one
    CHECK(steps.after(done, done + 1, true, true).next == Next::Repeat);
    CHECK(steps.after(done, done + 1, true, true).next == Next::Skip);
  }
  CHECK(skipped_before_the_end(steps, 100) == 10);
  NotFiniteSteps from_the_start(NotFinitePolicy::Skip);
  CHECK(skipped_before_the_end(from_the_start, 0) == 10);
}

}  // namespace
}  // namespace pipewright
