// Gradients that are not finite while the loss is: nothing that is kept,
// weights or the optimizer's state, is of that step.

#include <doctest/doctest.h>

#include <limits>

#include "pipewright/runtime/execution/executor.h"
#include "pipewright/runtime/execution/gradients.h"
#include "tests/runtime/test_models.h"

namespace pipewright {
namespace {

using namespace testing;

constexpr int kMicrobatch = 4, kMicrobatches = 4;

TEST_CASE("one number that is not finite is found wherever it is") {
  using Limits = std::numeric_limits<float>;
  for (const int count : {1, 15, 16, 17, 100})
    for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16}) {
      const at::Tensor fine = at::full({count}, Limits::max() / 2).to(type);
      CHECK(is_finite(fine));
      CHECK(is_finite(at::full({count}, -Limits::denorm_min()).to(type)));
      for (int i = 0; i < count; ++i)
        for (const float bad :
             {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()}) {
          const at::Tensor tensor = fine.clone();
          tensor[i] = bad;
          CHECK_FALSE(is_finite(tensor));
        }
    }
  CHECK(is_finite(at::empty({0})));
  const at::Tensor grid = at::zeros({6, 6});
  grid[3][4] = Limits::infinity();
  CHECK_FALSE(is_finite(grid.t()));
  CHECK_FALSE(is_finite(grid.slice(1, 0, 6, 2)));
  CHECK(is_finite(grid.slice(1, 1, 6, 2)));
}

Program on_workers(const Model& model, const std::string& name, int workers) {
  const Plan plan =
      plan_of(model, generated(name, workers, kMicrobatches), kMicrobatch);
  return lower(plan, profile_of(model, kMicrobatch)).value();
}

// Weights do not move, momentum does.
TrainingSettings standing_still() {
  TrainingSettings settings = settings_for_tests();
  settings.learning_rate = [](std::int64_t) { return 0.0; };
  return settings;
}

// Two steps of training; then the first weights are so small, and the last ones
// so large, that with a huge input the loss is finite, and the gradient of the
// first weights, which is the input times the last ones, is not.
TrainingState on_the_edge(const Model& model) {
  Executor executor(model, on_workers(model, "gpipe", 1), settings_for_tests());
  REQUIRE(executor.run(random_source(model, kMicrobatch), 2).ok());
  TrainingState state = executor.state();
  const std::size_t last = model.parameters().size() - 2;  // before its bias
  state.parameters[0] = state.parameters[0].mul(1e-35);
  state.parameters[last] = state.parameters[last].mul(1e4);
  return state;
}

MicrobatchSource huge_at(const MicrobatchSource& good, std::int64_t bad) {
  return [&good, bad](int input, std::int64_t m) {
    return input == 0 && m == bad ? good(input, m).mul(1e38).clamp(-3e38, 3e38)
                                  : good(input, m);
  };
}

bool same_bits(const TrainingState& a, const TrainingState& b) {
  const auto same = [](const Tensors& x, const Tensors& y) {
    return std::equal(
        x.begin(), x.end(), y.begin(), y.end(),
        [](const auto& one, const auto& other) { return one.equal(other); });
  };
  return a.minibatches == b.minibatches && same(a.parameters, b.parameters) &&
         std::equal(a.optimizer.begin(), a.optimizer.end(), b.optimizer.begin(),
                    b.optimizer.end(), same);
}

// Trains from there up to a gradient in the third step, and back.
void check(const Model& model, const Program& program, int kept) {
  const MicrobatchSource good = random_source(model, kMicrobatch);
  const TrainingState start = on_the_edge(model);
  Executor executor(model, program, standing_still());
  executor.resume(start);
  const Result<Executed> lost = executor.run(
      huge_at(good, kMicrobatches * (start.minibatches + 2) + 1), 6);
  REQUIRE(!lost.ok());
  CHECK(lost.error().code == ErrorCode::LossNotFinite);
  CHECK(lost.error().message == "the gradient of linear1.weight is not finite");
  CHECK(lost.error().where.find("step 5, worker 0, stage 0, step") == 0);

  Executor other(model, program, standing_still());
  other.resume(start);
  if (kept > 0) REQUIRE(other.run(good, kept).ok());
  REQUIRE(executor.has_state());
  CHECK(same_bits(executor.state(), other.state()));
  REQUIRE(executor.run(good, 3).ok());
  REQUIRE(other.run(good, 3).ok());
  CHECK(same_bits(executor.state(), other.state()));
}

TEST_CASE("one stage: the last good step is kept") {
  const Model model = small_mlp();
  check(model, on_workers(model, "gpipe", 1), 2);
}

// The last stage has made its step when the first one gets to its own.
TEST_CASE("several stages: as before the run") {
  const Model model = small_mlp();
  for (const char* name : {"1f1b", "gpipe", "zb-h1"}) {
    CAPTURE(std::string(name));
    check(model, on_workers(model, name, 2), 0);
  }
}

}  // namespace
}  // namespace pipewright
