// Runs that are watched in their stride: from step kFirst up to kEnd no call of
// malloc is to be ours, see watched_malloc.h.

#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "pipewright/runtime/execution/executor.h"
#include "tests/runtime/execution/watched_malloc.h"
#include "tests/runtime/test_models.h"

namespace pipewright::testing {

constexpr int kMicrobatch = 4, kMicrobatches = 4;
constexpr int kFirst = 5, kEnd = 10, kSteps = 12;

// Makes all tensors beforehand.
inline MicrobatchSource prepared_source(const Model& model) {
  const MicrobatchSource random = random_source(model, kMicrobatch);
  std::vector<Tensors> inputs(model.inputs().size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    for (int m = 0; m < kMicrobatches; ++m)
      inputs[i].push_back(random(static_cast<int>(i), m));
  return [inputs](int input, std::int64_t m) {
    return inputs[static_cast<std::size_t>(input)]
                 [static_cast<std::size_t>(m % kMicrobatches)];
  };
}

// Every worker asks for the rate when it makes a step: then its watch begins
// and ends.
inline TrainingSettings watching(double max_norm) {
  TrainingSettings settings = settings_for_tests();
  settings.max_norm = max_norm;
  settings.learning_rate = [](std::int64_t step) {
    watch_this_thread(kFirst <= step + 1 && step + 1 < kEnd);
    return 0.01;
  };
  return settings;
}

inline Program lowered(const Model& model, const Plan& plan, double max_norm) {
  LowerOptions options;
  options.global_norm = max_norm > 0;
  const Result<Program> program =
      lower(plan, profile_of(model, kMicrobatch), options);
  REQUIRE_MESSAGE(program.ok(),
                  (program.ok() ? "" : program.error().to_text()));
  return *program;
}

inline void run_all(Executor& executor, const MicrobatchSource& source) {
  const auto run = executor.run(source, kSteps);
  REQUIRE_MESSAGE(run.ok(), (run.ok() ? "" : run.error().to_text()));
}

inline void check_nothing_is_ours() {
  const Allocations allocations = take_allocations();
  CHECK(allocations.others > 0);  // it does look
  CHECK_MESSAGE(allocations.ours == 0, allocations.ours, " of ours beside ",
                allocations.others, " of libraries:\n", allocations.sites);
}

// Backward of some layers where the next stage is, or the one before.
inline Plan with_moved_backward(const Model& model, Plan plan, int moved) {
  const int cut = static_cast<int>(plan.stages[0].forward.size()) + moved;
  for (Stage& stage : plan.stages) stage.backward.clear();
  for (int l = 0; l < model.num_layers(); ++l)
    plan.stages[l < cut ? 0 : 1].backward.push_back(LayerId(l));
  return plan;
}

inline Plan recomputing_all(Plan plan) {
  for (Stage& stage : plan.stages) stage.recompute = true;
  return plan;
}

}  // namespace pipewright::testing
