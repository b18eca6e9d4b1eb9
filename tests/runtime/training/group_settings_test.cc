// Groups of parameters: LibTorch's steps, and the same bits under every
// program.

#include "pipewright/runtime/training/group_settings.h"

#include <doctest/doctest.h>
#include <torch/optim/adamw.h>

#include "pipewright/plan/validation/validate.h"
#include "pipewright/runtime/execution/executor.h"
#include "pipewright/runtime/reference/interpreter.h"
#include "pipewright/runtime/reference/sequential.h"
#include "tests/runtime/test_models.h"

namespace pipewright {
namespace {

using namespace testing;

constexpr int kMicrobatch = 4, kMicrobatches = 4, kSteps = 4;

TrainRequest request_with_groups() {
  TrainRequest request;
  request.optimizer.name = "adamw";
  request.optimizer.weight_decay = 0.1;
  request.optimizer.groups = {{{"*.bias"}, {}, 0.0},
                              {{"layer_norm*", "batch_norm*"}, 0.002, 0.0},
                              {{"linear*.weight"}, 0.05, 0.3}};
  request.rate.rate = 0.01;
  request.rate.warm_up = 2;
  return request;
}

std::vector<ParameterGroup> groups_for(const Model& model) {
  auto groups = request_with_groups().optimizer.groups;
  groups[1].patterns = {model.name() == "gpt" ? "layer_norm*" : "batch_norm*"};
  return groups;
}

TrainingSettings settings_with_groups(const Model& model) {
  TrainRequest request = request_with_groups();
  request.optimizer.groups = groups_for(model);
  TrainingSettings settings = settings_for_tests();
  settings.optimizer = make_optimizer(request.optimizer).value();
  settings.learning_rate = [rate = request.rate](std::int64_t step) {
    return rate.at(step, kSteps);
  };
  settings.groups = group_settings(model, request, kSteps).value();
  return settings;
}

// One parameter and gradient per group, and one without a group.
TEST_CASE("groups are LibTorch's") {
  const Model model = small_gpt();
  const TrainingSettings settings = settings_with_groups(model);
  const auto groups = groups_for(model);
  const auto group_of = groups_of(groups, model).value();
  CHECK(std::count(group_of.begin(), group_of.end(), -1) > 0);
  at::manual_seed(4);
  std::vector<at::Tensor> ours, theirs;
  std::vector<torch::optim::OptimizerParamGroup> their_groups;
  for (std::size_t i = 0; i < group_of.size(); ++i) {
    ours.push_back(at::randn(model.parameters()[i].shape));
    theirs.push_back(ours.back().clone().set_requires_grad(true));
    const double decay = group_of[i] < 0
                             ? 0.1
                             : groups[static_cast<std::size_t>(group_of[i])]
                                   .weight_decay.value();
    their_groups.emplace_back(
        std::vector<at::Tensor>{theirs.back()},
        std::make_unique<torch::optim::AdamWOptions>(
            torch::optim::AdamWOptions(0.1).weight_decay(decay)));
  }
  torch::optim::AdamW optimizer(their_groups);
  std::vector<Tensors> states(ours.size());
  for (int step = 0; step < kSteps; ++step) {
    for (std::size_t i = 0; i < ours.size(); ++i) {
      const at::Tensor gradient = at::randn_like(ours[i]);
      update_parameter(settings, ParameterId(i), ours[i], gradient, states[i],
                       0, step);
      theirs[i].mutable_grad() = gradient;
      const double rates[] = {0.01, 0.01, 0.002, 0.05};
      const double warm = step < 2 ? (step + 1) / 2.0 : 1.0;
      static_cast<torch::optim::AdamWOptions&>(
          optimizer.param_groups()[i].options())
          .lr(rates[group_of[i] + 1] * warm);
    }
    optimizer.step();
    for (std::size_t i = 0; i < ours.size(); ++i)
      CHECK((ours[i] - theirs[i].detach()).abs().max().item<double>() <= 1e-6);
  }
}

// Equal to the interpreter always, to sequential training where `ordered`.
void check_bits(const Model& model, const Plan& plan, bool ordered) {
  const Program program = lower(plan, profile_of(model, kMicrobatch)).value();
  const MicrobatchSource source = random_source(model, kMicrobatch);
  const TrainingSettings settings = settings_with_groups(model);
  Executor executor(model, program, settings);
  const auto run = executor.run(source, kSteps);
  REQUIRE_MESSAGE(run.ok(), (run.ok() ? "" : run.error().to_text()));
  const auto expected = interpret(model, program, settings, source, kSteps);
  CHECK(is_identical(executor.trained(), expected.value()));
  if (!ordered) return;
  const MinibatchShape shape{kMicrobatches, kMicrobatch};
  const Trained plain =
      train_sequentially(model, settings, source, shape, kSteps);
  CHECK(is_identical(executor.trained(), plain));
  TrainingSettings without = settings;
  without.groups.clear();
  CHECK(!is_identical(
      plain, train_sequentially(model, without, source, shape, kSteps)));
}

TEST_CASE("every synchronous program gives the bits of sequential training") {
  for (const Model& model : {small_cnn(), small_gpt()})
    for (const char* name : {"gpipe", "1f1b", "interleaved", "zb-h1"})
      for (const int workers : {2, 3}) {
        CAPTURE(model.name());
        CAPTURE(name);
        CAPTURE(workers);
        const Schedule schedule = generated(name, workers, kMicrobatches);
        check_bits(model, plan_of(model, schedule, kMicrobatch), true);
      }
}

TEST_CASE("replicas and asynchronous methods give those of the interpreter") {
  for (const Model& model : {small_cnn(), small_gpt()}) {
    check_bits(model,
               plan_of(model,
                       with_replicas(generated("1f1b", 2, kMicrobatches),
                                     {2, 1}, Replication::Split)
                           .value(),
                       kMicrobatch),
               false);
    for (const Method method : {Method::Stash, Method::PipeMare})
      check_bits(model,
                 plan_of(model, generated("async-1f1b", 2, kMicrobatches),
                         kMicrobatch, method),
                 false);
  }
}

}  // namespace
}  // namespace pipewright
