// Bi-Partition executed: forward and backward cut at different places. Random
// pairs of cuts, on threads, equal the interpreter and the delay model bit for
// bit, and what backward keeps of a forward elsewhere travels once.

#include <random>

#include "pipewright/plan/validation/validate.h"
#include "pipewright/runtime/reference/interpreter.h"
#include "tests/runtime/execution/async_cases.h"

namespace pipewright {
namespace {

using namespace testing;

constexpr int kMicrobatches = 4;
constexpr int kSteps = 8;

std::vector<int> random_cuts(std::mt19937& random, int layers, int stages) {
  std::set<int> cuts;
  while (static_cast<int>(cuts.size()) < stages - 1)
    cuts.insert(1 + static_cast<int>(random() % std::uint32_t(layers - 1)));
  return {cuts.begin(), cuts.end()};
}

int stage_at(const std::vector<int>& cuts, int layer) {
  return static_cast<int>(std::upper_bound(cuts.begin(), cuts.end(), layer) -
                          cuts.begin());
}

Plan split_plan(const Model& model, Method method, const std::vector<int>& x,
                const std::vector<int>& y, bool recompute) {
  const int stages = static_cast<int>(x.size()) + 1;
  Plan plan = async_plan(model, method, stages, stages, kMicrobatches);
  if (method == Method::Sync) plan = drained(plan).value();
  for (Stage& stage : plan.stages) {
    stage.forward.clear();
    stage.backward.clear();
    stage.recompute = recompute;
  }
  for (int l = 0; l < model.num_layers(); ++l) {
    plan.stages[static_cast<std::size_t>(stage_at(x, l))].forward.push_back(
        LayerId(l));
    plan.stages[static_cast<std::size_t>(stage_at(y, l))].backward.push_back(
        LayerId(l));
  }
  return plan;
}

// Of what a forward makes, nothing is sent twice to one worker.
int values_sent(const Program& program) {
  std::set<std::pair<WorkerId, Value>> sent;
  int count = 0;
  for (const Transfer& transfer : program.transfers)
    for (const Value& value : transfer.values) {
      if (value.kind != ValueKind::Activation &&
          value.kind != ValueKind::Private)
        continue;
      CHECK(sent.insert({transfer.to, value}).second);
      count += transfer.kind == TransferKind::Saved;
    }
  return count;
}

TEST_CASE("200 random pairs of cuts") {
  std::mt19937 random(20230222);
  int ahead = 0, behind = 0, saved = 0;
  for (int i = 0; i < 200; ++i) {
    const std::string name = std::array{"mlp", "gpt", "mlp", "cnn",
                                        "mlp", "gpt", "mlp", "lstm"}[i % 8];
    const Method method =
        std::array{Method::Sync, Method::Stash, Method::TwoBw}[random() % 3];
    const Model& model = async_models().at(name);
    const int stages = 2 + static_cast<int>(random() % 3);
    const bool recompute = random() % 3 == 0;
    const auto x = random_cuts(random, model.num_layers(), stages);
    const auto y = random_cuts(random, model.num_layers(), stages);
    for (std::size_t c = 0; c < x.size(); ++c) {
      ahead += x[c] > y[c];
      behind += x[c] < y[c];
    }
    CAPTURE(i);
    CAPTURE(name);
    CAPTURE(to_text(method));
    CAPTURE(stages);
    CAPTURE(recompute);
    const Plan plan = split_plan(model, method, x, y, recompute);
    const Program program = lowered(model, plan);
    REQUIRE(validate(program).ok());
    const TrainingSettings settings = settings_for_tests();
    const Trained done = executed(model, program, settings, kSteps);
    const Result<Trained> interpreted =
        interpret(model, program, settings, random_source(model, 4), kSteps);
    REQUIRE(interpreted.ok());
    CHECK(is_identical(done, *interpreted));
    CHECK(is_identical(
        done, delayed(model, delayed_pipeline(model, plan), settings, kSteps)));
    saved += values_sent(program);
  }
  // Forward cut behind the backward one (case A) and before it (case B).
  CHECK(ahead > 100);
  CHECK(behind > 100);
  CHECK(saved > 200);
}

}  // namespace
}  // namespace pipewright
