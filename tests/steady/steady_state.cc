// In its stride the executor asks for no memory of its own, whatever the
// program: over steps 5 to 9 of a run no call of malloc is ours, see
// watched_malloc.h. Tensors come from heaps that have seen their sizes.

#include <doctest/doctest.h>

#include <map>

#include "pipewright/runtime/executor.h"
#include "tests/runtime/test_models.h"
#include "tests/steady/watched_malloc.h"

namespace pipewright {
namespace {

using namespace testing;

constexpr int kMicrobatch = 4, kMicrobatches = 4;
constexpr int kFirst = 5, kEnd = 10, kSteps = 12;

Schedule generated(const std::string& name, int workers) {
  ScheduleRequest request;
  request.workers = workers;
  request.microbatches = kMicrobatches;
  return generate_schedule(name, request).value();
}

// Makes all tensors beforehand.
MicrobatchSource prepared_source(const Model& model) {
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
TrainingSettings watching(double most_norm) {
  TrainingSettings settings = settings_for_tests();
  settings.most_norm = most_norm;
  settings.learning_rate = [](std::int64_t step) {
    watch_this_thread(kFirst <= step + 1 && step + 1 < kEnd);
    return 0.01;
  };
  return settings;
}

void check(const Model& model, const Plan& plan, double most_norm = 0) {
  LowerOptions options;
  options.global_norm = most_norm > 0;
  const Result<Program> program =
      lower(plan, profile_of(model, kMicrobatch), options);
  REQUIRE_MESSAGE(program.ok(),
                  (program.ok() ? "" : program.error().to_text()));
  Executor executor(model, *program, watching(most_norm));
  const auto run = executor.run(prepared_source(model), kSteps);
  REQUIRE_MESSAGE(run.ok(), (run.ok() ? "" : run.error().to_text()));
  const Allocations allocations = take_allocations();
  CHECK(allocations.others > 0);  // it does look
  CHECK_MESSAGE(allocations.ours == 0, allocations.ours, " of ours beside ",
                allocations.others, " of LibTorch's:\n", allocations.sites);
}

// Backward of some layers where the next stage is, or the one before.
Plan with_moved_backward(const Model& model, Plan plan, int moved) {
  const int cut = static_cast<int>(plan.stages[0].forward.size()) + moved;
  for (Stage& stage : plan.stages) stage.backward.clear();
  for (int l = 0; l < model.num_layers(); ++l)
    plan.stages[l < cut ? 0 : 1].backward.push_back(LayerId(l));
  return plan;
}

Plan recomputing_all(Plan plan) {
  for (Stage& stage : plan.stages) stage.recompute = true;
  return plan;
}

// Also what a library asks for on our behalf.
TEST_CASE("a list that grows is ours, a tensor is LibTorch's") {
  static std::vector<int> numbers;
  static Tensors tensors;
  watch_this_thread(true);
  numbers.resize(100);
  tensors.resize(9);
  watch_this_thread(false);
  const Allocations lists = take_allocations();
  CHECK(lists.ours == 2);
  CHECK(lists.others == 0);
  watch_this_thread(true);
  tensors[0] = at::ones({3});
  watch_this_thread(false);
  const Allocations tensor = take_allocations();
  CHECK(tensor.ours == 0);
  CHECK(tensor.others > 0);
}

TEST_CASE("synchronous schedules") {
  for (const Model& model : {small_mlp(), small_cnn(), small_gpt()})
    for (const char* name : {"1f1b", "gpipe", "interleaved", "zb-h1", "zb-v"}) {
      CAPTURE(model.name());
      CAPTURE(std::string(name));
      check(model, plan_of(model, generated(name, 2), kMicrobatch));
    }
}

TEST_CASE("recomputation, clipping, recurrences") {
  const Model gpt = small_gpt(), cnn = small_cnn(), lstm = small_lstm();
  const Schedule schedule = generated("1f1b", 2);
  check(cnn, recomputing_all(plan_of(cnn, schedule, kMicrobatch)));
  check(gpt, plan_of(gpt, schedule, kMicrobatch), 0.05);
  check(lstm, plan_of(lstm, schedule, kMicrobatch));
}

TEST_CASE("replicas that split a microbatch or take turns") {
  for (const Model& model : {small_cnn(), small_gpt()})
    for (const Replication replication :
         {Replication::Split, Replication::Rotate})
      for (const std::vector<int>& replicas :
           {std::vector<int>{2, 1}, {2, 3}}) {
        CAPTURE(model.name());
        CAPTURE(static_cast<int>(replication));
        CAPTURE(replicas[0]);
        CAPTURE(replicas[1]);
        const Plan plan = plan_of(
            model,
            with_replicas(generated("1f1b", 2), replicas, replication).value(),
            kMicrobatch);
        check(model, plan);
        check(model, plan, 0.05);
      }
}

TEST_CASE("forward and backward cut at different places") {
  for (const Model& model : {small_mlp(), small_cnn(), small_gpt()})
    for (const int moved : {-3, 3}) {
      CAPTURE(model.name());
      CAPTURE(moved);
      check(model, with_moved_backward(
                       model, plan_of(model, generated("1f1b", 2), kMicrobatch),
                       moved));
    }
}

TEST_CASE("asynchronous methods") {
  const Model model = small_mlp();
  for (const Method method : {Method::PipeMare, Method::Naive, Method::Stash,
                              Method::TwoBw, Method::VerticalSync})
    for (const int workers : {2, 4}) {
      CAPTURE(to_text(method));
      CAPTURE(workers);
      check(model, plan_of(model, generated("async-1f1b", workers), kMicrobatch,
                           method));
    }
}

}  // namespace
}  // namespace pipewright
