// Asynchronous plans of the small models, run by the executor and by the delay
// model.

#pragma once

#include <doctest/doctest.h>

#include "pipewright/plan/method_switch.h"
#include "pipewright/planners/pipemare/pipemare_segments.h"
#include "pipewright/runtime/execution/executor.h"
#include "pipewright/runtime/weights/step_rule.h"
#include "pipewright/schedules/async_deep.h"
#include "tests/runtime/execution/delay_model.h"
#include "tests/runtime/test_models.h"

namespace pipewright::testing {

inline const std::map<std::string, Model>& async_models() {
  static const std::map<std::string, Model> all = {{"mlp", small_mlp()},
                                                   {"cnn", small_cnn()},
                                                   {"gpt", small_gpt()},
                                                   {"lstm", small_lstm()}};
  return all;
}

// With both of PipeMare's techniques that a method may use.
inline TrainingSettings async_settings() {
  TrainingSettings settings = settings_for_tests();
  settings.rescheduling_steps = 7;
  settings.correction_decay = 0.2;
  return settings;
}

inline Plan async_plan(const Model& model, Method method, int stages,
                       int workers, int microbatches) {
  return plan_of(
      model,
      async_deep_schedule(even_stages(stages, workers), microbatches).value(),
      4, method);
}

// A stage a worker; segments of so many stages recompute, all but the last.
inline Plan segmented_plan(const Model& model, Method method, int stages,
                           int microbatches, int segment) {
  const Plan plan = async_plan(model, method, stages, stages, microbatches);
  return segment > 0 ? recomputing(plan, segment).value() : plan;
}

inline DelayedPipeline delayed_pipeline(const Model& model, const Plan& plan) {
  DelayedPipeline pipeline;
  pipeline.stages = plan.num_stages();
  pipeline.microbatches = plan.num_microbatches();
  pipeline.microbatch = plan.microbatch;
  pipeline.method = plan.method;
  pipeline.forward_stage.resize(static_cast<std::size_t>(model.num_layers()));
  pipeline.backward_stage = pipeline.forward_stage;
  for (int s = 0; s < plan.num_stages(); ++s) {
    const Stage& stage = plan.stages[static_cast<std::size_t>(s)];
    for (const LayerId l : stage.forward) pipeline.forward_stage[l.index()] = s;
    for (const LayerId l : stage.backward)
      pipeline.backward_stage[l.index()] = s;
    pipeline.recompute.push_back(stage.recompute);
    pipeline.segment_end.push_back(s);
    for (int e = s + 1; e < plan.num_stages() &&
                        plan.stages[static_cast<std::size_t>(e)].continues;
         ++e)
      pipeline.segment_end.back() = e;
  }
  return pipeline;
}

inline Program lowered(const Model& model, const Plan& plan) {
  const Result<Program> program =
      lower(plan, profile_of(model, plan.microbatch));
  REQUIRE_MESSAGE(program.ok(),
                  (program.ok() ? "" : program.error().to_text()));
  return *program;
}

inline Trained executed(const Model& model, const Program& program,
                        const TrainingSettings& settings, int steps) {
  Executor executor(model, program, settings);
  const auto run =
      executor.run(random_source(model, program.microbatch), steps);
  REQUIRE_MESSAGE(run.ok(), (run.ok() ? "" : run.error().to_text()));
  CHECK(executor.num_values_held() == 0);
  return executor.trained();
}

inline Trained delayed(const Model& model, const DelayedPipeline& pipeline,
                       const TrainingSettings& settings, int steps) {
  const MicrobatchSource source = random_source(model, pipeline.microbatch);
  DelayModel reference(model, pipeline, settings, source);
  reference.run(steps);
  return reference.trained();
}

}  // namespace pipewright::testing
