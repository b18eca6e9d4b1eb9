// The equality matrix: every synchronous schedule, on 1 to 4 workers, for
// models with skips, batch-norm, dropout, tied weights and recurrences, with
// and without recomputation and replicas. The executor's weights equal those of
// the interpreter of the same program bit for bit; and those of sequential
// training wherever every layer has one accumulator that microbatches enter in
// order.

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>

#include "pipewright/runtime/execution/executor.h"
#include "pipewright/runtime/reference/interpreter.h"
#include "pipewright/runtime/reference/sequential.h"
#include "tests/runtime/test_models.h"

namespace pipewright {
namespace {

using namespace testing;

constexpr int kMicrobatch = 4;
constexpr int kMicrobatches = 4;
constexpr int kSteps = 5;

const std::map<std::string, Model>& models() {
  static const std::map<std::string, Model> all = {
      {"mlp", small_mlp()},
      {"cnn", small_cnn()},
      {"gpt", small_gpt()},
      {"flash gpt", small_gpt(NumberType::Float32, true)},
      {"lstm", small_lstm()}};
  return all;
}

const Trained& reference(const std::string& name) {
  static std::map<std::string, Trained> known;
  const Model& model = models().at(name);
  if (!known.count(name))
    known[name] = train_sequentially(model, settings_for_tests(),
                                     random_source(model, kMicrobatch),
                                     {kMicrobatches, kMicrobatch}, kSteps);
  return known.at(name);
}

bool has_one_ordered_accumulator(const Schedule& schedule) {
  std::map<StageId, int> workers;
  for (const auto& order : schedule.sections().body) {
    std::map<StageId, MicrobatchId> last;
    for (const ComputeAction& action : order) {
      if (action.kind != ComputeKind::Backward &&
          action.kind != ComputeKind::BackwardWeight)
        continue;
      auto [at, is_new] = last.emplace(action.stage, MicrobatchId());
      if (is_new && ++workers[action.stage] > 1) return false;
      if (action.microbatch <= at->second) return false;
      at->second = action.microbatch;
    }
  }
  return true;
}

struct Counts {
  int cases = 0, against_sequential = 0;
};

void check(const std::string& name, const Plan& plan, Counts& counts) {
  const Model& model = models().at(name);
  const Result<Program> program = lower(plan, profile_of(model, kMicrobatch));
  REQUIRE_MESSAGE(program.ok(),
                  (program.ok() ? "" : program.error().to_text()));
  const MicrobatchSource source = random_source(model, kMicrobatch);
  const TrainingSettings settings = settings_for_tests();
  Executor executor(model, *program, settings);
  const Result<Executed> run = executor.run(source, kSteps);
  REQUIRE_MESSAGE(run.ok(), (run.ok() ? "" : run.error().to_text()));
  CHECK(executor.num_values_held() == 0);
  const Result<Trained> expected =
      interpret(model, *program, settings, source, kSteps);
  REQUIRE_MESSAGE(expected.ok(),
                  (expected.ok() ? "" : expected.error().to_text()));
  CHECK(is_identical(executor.trained(), *expected));
  ++counts.cases;
  if (!has_one_ordered_accumulator(plan.schedule)) return;
  CHECK(is_identical(executor.trained(), reference(name)));
  ++counts.against_sequential;
}

TEST_CASE("every synchronous schedule on 1 to 4 workers") {
  Counts counts;
  for (const ScheduleGenerator& generator : schedule_generators())
    for (int workers = 1; workers <= 4; ++workers) {
      const Result<Schedule> schedule =
          generated_if_possible(generator.name, workers, kMicrobatches);
      if (!schedule || schedule->is_asynchronous()) continue;
      for (const auto& [name, model] : models()) {
        if (schedule->num_stages() > model.num_layers()) continue;
        CAPTURE(generator.name);
        CAPTURE(workers);
        CAPTURE(name);
        check(name, plan_of(model, *schedule, kMicrobatch), counts);
      }
    }
  MESSAGE(counts.cases, " cases, ", counts.against_sequential,
          " of them also equal to sequential training");
  CHECK(counts.cases > 150);
  CHECK(counts.against_sequential > 100);
}

// Stages of very different sizes, down to a single layer.
TEST_CASE("uneven partitions") {
  Counts counts;
  std::uint64_t draw = 0;
  for (const std::string generator : {"gpipe", "1f1b", "zb-h1", "zb-v"})
    for (const int workers : {2, 3})
      for (const auto& [name, model] : models()) {
        const Schedule schedule = generated(generator, workers, kMicrobatches);
        const int stages = schedule.num_stages(), layers = model.num_layers();
        if (stages > layers) continue;
        Plan plan = plan_of(model, schedule, kMicrobatch);
        std::set<int> cuts;
        const RandomStream stream(11, generator);
        while (static_cast<int>(cuts.size()) < stages - 1)
          cuts.insert(1 + static_cast<int>(stream.bits(draw++) %
                                           static_cast<unsigned>(layers - 1)));
        cuts.insert(layers);
        int layer = 0, s = 0;
        for (const int cut : cuts) {
          Stage& stage = plan.stages[static_cast<std::size_t>(s++)];
          stage.forward.clear();
          while (layer < cut) stage.forward.push_back(LayerId(layer++));
          stage.backward = stage.forward;
        }
        CAPTURE(generator);
        CAPTURE(workers);
        CAPTURE(name);
        check(name, plan, counts);
      }
  CHECK(counts.cases == 40);
  CHECK(counts.against_sequential >= 24);
}

TEST_CASE("recomputation changes no bit") {
  Counts counts;
  for (const std::string generator : {"gpipe", "1f1b", "interleaved", "zb-h1"})
    for (const int workers : {2, 3})
      for (const auto& [name, model] : models()) {
        const Result<Schedule> schedule =
            generated_if_possible(generator, workers, kMicrobatches);
        if (!schedule || schedule->num_stages() > model.num_layers()) continue;
        Plan plan = plan_of(model, *schedule, kMicrobatch);
        for (Stage& stage : plan.stages) stage.recompute = true;
        CAPTURE(generator);
        CAPTURE(workers);
        CAPTURE(name);
        check(name, plan, counts);
      }
  CHECK(counts.against_sequential > 20);
}

TEST_CASE("replicas that split a microbatch or take turns") {
  Counts counts;
  for (const Replication replication :
       {Replication::Split, Replication::Rotate})
    for (const std::string generator : {"gpipe", "1f1b", "interleaved"})
      for (const std::vector<int>& replicas :
           {std::vector<int>{2, 1}, {1, 2}, {2, 2}, {1, 3}, {3, 2}})
        for (const auto& [name, model] : models()) {
          const Result<Schedule> schedule = with_replicas(
              generated(generator, 2, kMicrobatches), replicas, replication);
          REQUIRE(schedule.ok());
          Plan plan = plan_of(model, *schedule, kMicrobatch);
          REQUIRE(plan.replication == replication);
          CAPTURE(static_cast<int>(replication));
          CAPTURE(generator);
          CAPTURE(replicas[0]);
          CAPTURE(replicas[1]);
          CAPTURE(name);
          check(name, plan, counts);
        }
  CHECK(counts.cases == 150);
}

// Every pair of cuts, for a chain and for a graph with skips.
TEST_CASE("forward and backward cut at different places") {
  Counts counts;
  for (const std::string name : {"mlp", "cnn", "gpt"}) {
    const Model& model = models().at(name);
    const int layers = model.num_layers();
    const Plan whole =
        plan_of(model, generated("1f1b", 2, kMicrobatches), kMicrobatch);
    for (int forward = 2; forward < layers - 1; forward += 4)
      for (int backward = 1; backward < layers - 1; backward += 5) {
        Plan plan = whole;
        for (Stage& stage : plan.stages) {
          stage.forward.clear();
          stage.backward.clear();
        }
        for (int l = 0; l < layers; ++l) {
          plan.stages[l < forward ? 0 : 1].forward.push_back(LayerId(l));
          plan.stages[l < backward ? 0 : 1].backward.push_back(LayerId(l));
        }
        CAPTURE(name);
        CAPTURE(forward);
        CAPTURE(backward);
        check(name, plan, counts);
      }
  }
  CHECK(counts.against_sequential == counts.cases);
  CHECK(counts.cases > 20);
}

}  // namespace
}  // namespace pipewright
