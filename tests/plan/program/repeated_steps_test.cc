// Which programs have the same step again and again.

#include "pipewright/plan/program/repeated_steps.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/plan/program/random_lowered.h"

namespace pipewright {
namespace {

bool adds_up_gradients(const Program& program, const Action& action) {
  return action.kind == ActionKind::Reduce &&
         !program.reduction(action.reduction).is_norm;
}

bool moves_weights(const Program& program, const Action& action) {
  return (action.kind == ActionKind::Send ||
          action.kind == ActionKind::Receive) &&
         program.transfer(action.transfer).is_keyed_by_version();
}

// By the actions of the lists, not by what the program declares.
bool has_equal_steps(const Program& program) {
  return std::all_of(
      program.workers.begin(), program.workers.end(), [&](const auto& worker) {
        return worker.prologue.empty() && worker.epilogue.empty() &&
               std::none_of(worker.body.begin(), worker.body.end(),
                            [&](const Action& action) {
                              return adds_up_gradients(program, action) ||
                                     moves_weights(program, action);
                            });
      });
}

TEST_CASE("steps repeat where nothing is under way between them") {
  RandomLowered lowered(29);
  int repeated = 0, asynchronous = 0, summed = 0;
  for (int i = 0; i < 2000; ++i) {
    CAPTURE(i);
    const LoweredPlan made = lowered.make();
    const bool is_asynchronous = made.plan.schedule.is_asynchronous();
    const bool has_sums = std::any_of(
        made.program.reductions.begin(), made.program.reductions.end(),
        [](const Reduction& each) { return !each.is_norm; });
    CHECK(repeats_steps(made.program) == has_equal_steps(made.program));
    if (repeats_steps(made.program)) ++repeated;
    if (has_sums) CHECK_FALSE(repeats_steps(made.program));
    summed += has_sums;
    asynchronous += is_asynchronous;
  }
  CHECK(repeated > 200);
  CHECK(asynchronous > 200);
  CHECK(summed > 200);
}

TEST_CASE("why steps differ is said") {
  Program program;
  WorkerProgram worker;
  CHECK(why_steps_differ(program, worker) == "");
  worker.held = {{WeightGroupId(0), 2}};
  CHECK(why_steps_differ(program, worker) ==
        "a worker keeps several versions of weights");
  worker.prologue.resize(1);
  CHECK(why_steps_differ(program, worker) ==
        "microbatches are under way between steps");
}

}  // namespace
}  // namespace pipewright
