// The same program on ranks and in one process: the same bits of weights,
// statistics, optimizer state and losses, for every schedule, method, kind of
// replicas and pair of cuts that a sample of cases has. One start for all,
// because it takes longer than a case; some cases leave ranks idle.

#include <doctest/doctest.h>

#include <cstring>
#include <limits>
#include <map>
#include <string>

#include "pipewright/runtime/execution/executor.h"
#include "pipewright/runtime/ranks/commands.h"
#include "tests/runtime/channels/ranks.h"
#include "tests/runtime/exported_models.h"
#include "tests/runtime/test_models.h"

namespace pipewright {
namespace {

using namespace testing;

constexpr int kMicrobatch = 4;
constexpr int kMicrobatches = 4;

const std::map<std::string, Model>& models() {
  static const std::map<std::string, Model> all = {{"mlp", small_mlp()},
                                                   {"cnn", small_cnn()},
                                                   {"gpt", small_gpt()},
                                                   {"lstm", small_lstm()}};
  return all;
}

const Model& model_named(const std::string& name) {
  const auto exported = exported_models().find(name);
  return exported == exported_models().end() ? models().at(name)
                                             : exported->second;
}

MicrobatchSource source_for(const Model& model) {
  return model.exported() ? exported_source(model, kMicrobatch)
                          : random_source(model, kMicrobatch);
}

struct Case {
  std::string name;
  std::string model;
  Plan plan;
};

void add(std::vector<Case>& cases, const std::string& name,
         const std::string& model, const Schedule& schedule,
         Method method = Method::Sync, bool recompute = false) {
  if (schedule.num_workers() > session().size() ||
      schedule.num_stages() > model_named(model).num_layers())
    return;
  Plan plan = plan_of(model_named(model), schedule, kMicrobatch, method);
  for (Stage& stage : plan.stages) stage.recompute = recompute;
  cases.push_back({name + " " + model, model, std::move(plan)});
}

// Each schedule on two of three numbers of workers, with one model after the
// other, so that all meet.
std::vector<Case> synchronous_cases() {
  std::vector<Case> cases;
  auto model = models().begin();
  int left_out = 2;
  for (const ScheduleGenerator& generator : schedule_generators()) {
    left_out = left_out == 4 ? 2 : left_out + 1;
    for (int workers = 2; workers <= 4; ++workers) {
      if (workers == left_out) continue;
      const Result<Schedule> schedule =
          generated_if_possible(generator.name, workers, kMicrobatches);
      if (!schedule || schedule->is_asynchronous()) continue;
      const std::string name = generator.name + " " + std::to_string(workers);
      add(cases, name, model->first, *schedule, Method::Sync,
          cases.size() % 4 == 3);
      if (++model == models().end()) model = models().begin();
    }
  }
  return cases;
}

std::vector<Case> replicated_cases() {
  std::vector<Case> cases;
  for (const Replication replication :
       {Replication::Split, Replication::Rotate})
    for (const std::vector<int>& replicas :
         {std::vector<int>{2, 1}, {1, 2}, {2, 2}, {1, 3}})
      for (const char* model : {"cnn", "gpt"})
        add(cases,
            std::string(replication == Replication::Split ? "split" : "rotate"),
            model,
            with_replicas(generated("1f1b", 2, kMicrobatches), replicas,
                          replication)
                .value());
  return cases;
}

// Forward and backward of two stages have as many layers in the first one.
void cut_apart(Plan& plan, int layers, int forward, int backward) {
  for (Stage& stage : plan.stages) {
    stage.forward.clear();
    stage.backward.clear();
  }
  for (int l = 0; l < layers; ++l) {
    plan.stages[l < forward ? 0 : 1].forward.push_back(LayerId(l));
    plan.stages[l < backward ? 0 : 1].backward.push_back(LayerId(l));
  }
}

std::vector<Case> asynchronous_cases() {
  std::vector<Case> cases;
  for (const Method method : kMethods) {
    if (!is_asynchronous(method)) continue;
    for (const int workers : {2, 3, 4})
      add(cases, to_text(method) + " " + std::to_string(workers),
          cases.size() % 2 == 0 ? "mlp" : "gpt",
          generated("async-1f1b", workers, kMicrobatches), method);
  }
  return cases;
}

std::vector<Case> exported_cases() {
  std::vector<Case> cases;
  for (const auto& [name, model] : exported_models()) {
    for (const char* generator : {"1f1b", "zb-h1", "interleaved-1f1b"})
      for (const int workers : {2, 3})
        if (const auto schedule =
                generated_if_possible(generator, workers, kMicrobatches))
          add(cases, generator, name, *schedule, Method::Sync, workers == 3);
    add(cases, "split", name,
        with_replicas(generated("1f1b", 2, kMicrobatches), {2, 1},
                      Replication::Split)
            .value());
    for (const Method method : {Method::PipeMare, Method::Stash, Method::TwoBw})
      add(cases, to_text(method), name,
          generated("async-1f1b", 2, kMicrobatches), method);
    add(cases, "two cuts", name, generated("1f1b", 2, kMicrobatches));
    cut_apart(cases.back().plan, model.num_layers(), 2, 3);
  }
  return cases;
}

// Forward and backward cut at different places.
std::vector<Case> two_cut_cases() {
  std::vector<Case> cases;
  for (const char* name : {"mlp", "cnn", "gpt"}) {
    const int layers = models().at(name).num_layers();
    for (const auto& [forward, backward] :
         {std::pair(2, 5), std::pair(6, 3), std::pair(layers - 3, 2)}) {
      add(cases, "two cuts", name, generated("1f1b", 2, kMicrobatches));
      cut_apart(cases.back().plan, layers, forward, backward);
    }
  }
  return cases;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         std::memcmp(a.contiguous().const_data_ptr(),
                     b.contiguous().const_data_ptr(), a.nbytes()) == 0;
}

bool same_bits(const Tensors& a, const Tensors& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(),
      [](const auto& x, const auto& y) { return same_bits(x, y); });
}

bool same_bits(const std::vector<Tensors>& a, const std::vector<Tensors>& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(),
      [](const auto& x, const auto& y) { return same_bits(x, y); });
}

struct Outcome {
  TrainingState state;
  std::vector<double> losses;
};

// Two runs one behind the other, so that what workers tell each other between
// runs counts.
Outcome outcome(Executor& executor, const MicrobatchSource& source, int steps) {
  Outcome result;
  for (int i = 0; i < 2; ++i) {
    const Result<Executed> run = executor.run(source, steps);
    REQUIRE_MESSAGE(run.ok(), (run.ok() ? "" : run.error().to_text()));
    result.losses.insert(result.losses.end(), run->losses.begin(),
                         run->losses.end());
  }
  CHECK(executor.num_values_held() == 0);
  result.state = executor.state();
  return result;
}

void check(Transport& transport, const Case& each) {
  CAPTURE(each.name);
  const Model& model = model_named(each.model);
  const Program program =
      lower(each.plan, profile_of(model, kMicrobatch)).value();
  const MicrobatchSource source = source_for(model);
  const TrainingSettings settings = settings_for_tests();
  Executor executor(model, program, settings, &transport);
  if (!transport.leads()) {
    executor.follow(source);
    return;
  }
  const int steps = std::max(2, program.minibatches_outside + 1);
  const Outcome ours = outcome(executor, source, steps);
  shut_down(transport, {});
  Executor alone(model, program, settings);
  const Outcome theirs = outcome(alone, source, steps);
  CHECK(ours.losses == theirs.losses);
  CHECK(ours.state.minibatches == theirs.state.minibatches);
  CHECK(same_bits(ours.state.parameters, theirs.state.parameters));
  CHECK(same_bits(ours.state.statistics, theirs.state.statistics));
  CHECK(same_bits(ours.state.optimizer, theirs.state.optimizer));
  CHECK(same_bits(ours.state.velocity, theirs.state.velocity));
}

void check_all(const std::vector<Case>& cases, std::size_t at_least) {
  const auto transport = session().connect({});
  for (const Case& each : cases) check(*transport, each);
  if (transport->leads()) MESSAGE(cases.size(), " cases");
  CHECK(cases.size() >= at_least);
}

TEST_CASE("synchronous schedules") { check_all(synchronous_cases(), 24); }
TEST_CASE("replicas") { check_all(replicated_cases(), 16); }
TEST_CASE("asynchronous methods") { check_all(asynchronous_cases(), 15); }
TEST_CASE("two cuts") { check_all(two_cut_cases(), 9); }
TEST_CASE("exported models") { check_all(exported_cases(), 36); }

constexpr std::int64_t kBadMinibatch = 3;

MicrobatchSource not_finite_once(const MicrobatchSource& good) {
  return [good](int input, std::int64_t m) {
    const at::Tensor tensor = good(input, m);
    return input == 0 && m == kBadMinibatch * kMicrobatches + 1
               ? tensor.mul(std::numeric_limits<double>::infinity())
               : tensor;
  };
}

// Comes to the bad minibatch, once in the middle of a run and once alone, and
// goes on after it.
TrainingState state_without_bad(Executor& executor,
                                const MicrobatchSource& source) {
  REQUIRE(executor.run(source, 2).ok());
  const auto fails = [&](int minibatches) {
    const Result<Executed> run = executor.run(source, minibatches);
    REQUIRE(!run.ok());
    CHECK(run.error().code == ErrorCode::LossNotFinite);
    return executor.state();
  };
  TrainingState state = fails(4);
  executor.resume(state);
  if (const auto left = kBadMinibatch - state.minibatches; left > 0)
    REQUIRE(executor.run(source, static_cast<int>(left)).ok());
  state = fails(1);
  CHECK(state.minibatches == kBadMinibatch);
  ++state.minibatches;
  executor.resume(state);
  REQUIRE(executor.run(source, 2).ok());
  CHECK(executor.num_values_held() == 0);
  return executor.state();
}

TEST_CASE("ranks go on after a loss that is not finite") {
  const auto transport = session().connect({});
  std::vector<Case> cases = synchronous_cases();
  for (Case& each : replicated_cases()) cases.push_back(std::move(each));
  std::erase_if(cases, [](const Case& each) {
    return each.model != "cnn" && each.model != "mlp";
  });
  CHECK(cases.size() >= 16);
  TrainingSettings settings = settings_for_tests();
  settings.always_remembers = true;
  for (const Case& each : cases) {
    CAPTURE(each.name);
    const Model& model = models().at(each.model);
    const Program program =
        lower(each.plan, profile_of(model, kMicrobatch)).value();
    const MicrobatchSource source = not_finite_once(source_for(model));
    Executor executor(model, program, settings, transport.get());
    if (!transport->leads()) {
      executor.follow(source);
      continue;
    }
    const TrainingState ours = state_without_bad(executor, source);
    shut_down(*transport, {});
    Executor alone(model, program, settings);
    const TrainingState theirs = state_without_bad(alone, source);
    CHECK(ours.minibatches == theirs.minibatches);
    CHECK(same_bits(ours.parameters, theirs.parameters));
    CHECK(same_bits(ours.statistics, theirs.statistics));
    CHECK(same_bits(ours.optimizer, theirs.optimizer));
  }
}

// Rank 0 is asked at its own steps; wherever the others are, all end after the
// same one, with the bits of a run of that length, and every loss is told.
TEST_CASE("asynchronous runs that end early") {
  const auto transport = session().connect({});
  int asked_for = 1;
  for (const Case& each : asynchronous_cases()) {
    CAPTURE(each.name);
    const Model& model = models().at(each.model);
    const Program program =
        lower(each.plan, profile_of(model, kMicrobatch)).value();
    const MicrobatchSource source = source_for(model);
    Executor executor(model, program, settings_for_tests(), transport.get());
    if (!transport->leads()) {
      executor.follow(source);
      continue;
    }
    int asked = 0;
    std::int64_t told = 0, ends_after = 0;
    const Result<Executed> run = executor.run(
        source, 40,
        {.is_to_end = [&](std::int64_t) { return asked++ >= asked_for; },
         .on_early_end = [&](std::int64_t many) { ends_after = many; },
         .on_loss = [&](std::int64_t, std::int32_t, std::int32_t,
                        double) { ++told; }});
    REQUIRE(run.ok());
    const int done = run->timeline.minibatches;
    CHECK(done < 40);
    CHECK(done == ends_after);
    CHECK(told == std::int64_t{done} * kMicrobatches);
    const TrainingState state = executor.state();
    shut_down(*transport, {});
    Executor alone(model, program, settings_for_tests());
    const Result<Executed> shorter = alone.run(source, done);
    REQUIRE(shorter.ok());
    CHECK(run->losses == shorter->losses);
    CHECK(same_bits(state.parameters, alone.state().parameters));
    asked_for = asked_for % 5 + 1;
  }
}

// MPI's own sums come in another order: close, and the same on every rank.
TEST_CASE("fast reductions are close") {
  const auto transport = session().connect({.fast_reduce = true});
  for (const Case& each : replicated_cases()) {
    CAPTURE(each.name);
    const Model& model = models().at(each.model);
    const Program program =
        lower(each.plan, profile_of(model, kMicrobatch)).value();
    const MicrobatchSource source = random_source(model, kMicrobatch);
    Executor executor(model, program, settings_for_tests(), transport.get());
    if (!transport->leads()) {
      executor.follow(source);
      continue;
    }
    const Outcome ours = outcome(executor, source, 2);
    shut_down(*transport, {});
    Executor alone(model, program, settings_for_tests());
    const Outcome theirs = outcome(alone, source, 2);
    for (std::size_t i = 0; i < ours.state.parameters.size(); ++i)
      CHECK(at::allclose(ours.state.parameters[i], theirs.state.parameters[i],
                         1e-3, 1e-5));
  }
}

}  // namespace
}  // namespace pipewright
