// What a worker's heap measures, compared with what its program says of memory:
// every schedule and method, with recomputation and separate cuts. When a
// message travels depends on the clock, so a worker of several has an interval:
// from what its own actions hold, messages there only while they are read, to
// the bound that the validator proves. A worker alone has one figure.

#include <doctest/doctest.h>

#include <map>
#include <set>

#include "pipewright/plan/memory/memory_bound.h"
#include "pipewright/plan/program/action_cursor.h"
#include "pipewright/profile/analytic.h"
#include "pipewright/runtime/profiling/profiler.h"
#include "tests/runtime/execution/async_cases.h"
#include "tests/runtime/test_models.h"

namespace pipewright {
namespace {

using namespace testing;

constexpr int kMicrobatch = 8;
constexpr int kMicrobatches = 4;

// No layer runs in another process or by other kernels for other sizes.
const std::map<std::string, Model>& models() {
  static const std::map<std::string, Model> all = {
      {"mlp", small_mlp()}, {"gpt", small_gpt()}, {"cnn", small_cnn()}};
  return all;
}

// With the measured workspace; the samples are nobody's memory here.
const Profile& profile_for_memory(const std::string& name) {
  static std::map<std::string, Profile> known;
  const auto [at, is_new] = known.try_emplace(name);
  if (!is_new) return at->second;
  const Model& model = models().at(name);
  ProfilerOptions options;
  options.budget = Seconds(0.05);
  const std::vector<int> sizes = {kMicrobatch};
  at->second = measured_profile(model, sizes, options).value();
  leave_out_samples(model, at->second);
  return at->second;
}

MicrobatchSource one_microbatch(const Model& model, int samples) {
  const MicrobatchSource random = random_source(model, samples);
  Tensors inputs;
  for (std::size_t i = 0; i < model.inputs().size(); ++i)
    inputs.push_back(random(static_cast<int>(i), 0));
  return [inputs](int input, std::int64_t) {
    return inputs[static_cast<std::size_t>(input)];
  };
}

// What is there at least: gradients from the end of a minibatch's first
// backward to its step, messages while an action reads them.
class OwnWork {
 public:
  OwnWork(const Program& program, WorkerId worker)
      : program_(program), worker_(worker) {}

  std::int64_t most(int repetitions) {
    const MemoryUse constant = constant_memory(program_, worker_);
    held_ = (constant.weights + constant.optimizer).value();
    count_reads(repetitions);
    for (ActionCursor at(program_, worker_, repetitions); !at.at_end();
         at.advance())
      apply(at.action());
    return most_;
  }

 private:
  using Message = std::pair<TransferId, MicrobatchId>;

  const ReadSet& reads(const Action& action) const {
    return program_.reads(action);
  }
  const Transfer& transfer(TransferId id) const {
    return program_.transfers[id.index()];
  }

  void count_reads(int repetitions) {
    for (ActionCursor at(program_, worker_, repetitions); !at.at_end();
         at.advance())
      if (const Action action = at.action(); is_compute(action.kind))
        for (const TransferId id : reads(action).transfers)
          ++left_[{id, action.microbatch}];
  }

  void apply(const Action& action) {
    if (action.kind == ActionKind::Send)
      held_ -= transfer(action.transfer).freed_by_sender.value();
    if (action.kind == ActionKind::Step) {
      const Operation& stepped = *program_.operation(worker_, action.stage);
      if (has_gradients_.erase(action.stage))
        held_ -= stepped.gradients.value();
    }
    if (!is_compute(action.kind)) return;
    const Operation& operation = *program_.operation(worker_, action.stage);
    const Effect& effect = program_.life(action).effect;
    for (const TransferId id : reads(action).transfers) {
      if (transfer(id).is_keyed_by_version()) continue;
      if (there_.insert({id, action.microbatch}).second)
        held_ += transfer(id).bytes.value();
    }
    most_ = std::max(most_, held_ + effect.allocates.value());
    held_ += (effect.allocates - effect.frees).value();
    for (const TransferId id : reads(action).transfers) {
      if (transfer(id).is_keyed_by_version()) continue;
      if (--left_[{id, action.microbatch}] == 0)
        held_ += (transfer(id).retained_by_reader - transfer(id).bytes).value();
    }
    const bool has_weights = action.kind == ActionKind::Backward ||
                             action.kind == ActionKind::BackwardWeight;
    if (has_weights && has_gradients_.insert(action.stage).second)
      held_ += operation.gradients.value();
  }

  const Program& program_;
  const WorkerId worker_;
  std::int64_t held_ = 0, most_ = 0;
  std::map<Message, int> left_;
  std::set<Message> there_;
  std::set<StageId> has_gradients_;
};

// Batch statistics: a worker's, those before the minibatch, and those that the
// last run ended with. They are in no program.
std::int64_t statistics_of(const Model& model, const Program& program,
                           WorkerId worker) {
  std::int64_t bytes = 0;
  for (const Operation& operation : program.operations)
    for (const LayerId layer : operation.forward)
      if (operation.worker == worker &&
          model.layer(layer).kind == LayerKind::BatchNorm)
        bytes += 3 * layer_cost(model, layer).keeps_private.fixed.value();
  return bytes;
}

// Sums of gradients over workers: while another worker has not read them, they
// are there beside the gradients of the next minibatch. A step's memory is in
// no program either.
std::int64_t sums_of(const Program& program, WorkerId worker) {
  std::int64_t bytes = 0;
  for (const Reduction& reduction : program.reductions) {
    const std::set<WorkerId> workers(reduction.workers.begin(),
                                     reduction.workers.end());
    if (workers.size() > 1 && workers.count(worker))
      bytes += reduction.bytes.value();
  }
  return bytes;
}

// Where a velocity is kept, the weights before the step and the step itself,
// one parameter at a time.
std::int64_t step_of(const Model& model, const Program& program,
                     WorkerId worker) {
  std::int64_t most = 0;
  for (const Operation& operation : program.operations)
    if (operation.worker == worker &&
        program.delays[operation.stage.index()].averaging > 0)
      for (const LayerId layer : operation.backward)
        for (const ParameterId id : model.layer(layer).parameters)
          most = std::max(most, num_elements(model.parameter(id).shape) * 4);
  return 2 * most;
}

// The gradient that backward starts from, once for every form of that action.
constexpr std::int64_t kSeeds = 64;

struct Counts {
  int workers = 0, exact = 0;
  std::int64_t predicted = 0, measured = 0;
};

void check(const std::string& name, Plan plan, Counts& counts) {
  const Model& model = models().at(name);
  plan.optimizer_words = 1;
  LowerOptions options;
  options.shares_memory = true;
  const Program program =
      lower(plan, profile_for_memory(name), options).value();
  // A layer's workspace is the most of its forward and both halves of backward.
  Profile without_workspace = profile_for_memory(name);
  for (LayerSizes& sizes : without_workspace.sizes.at(kMicrobatch))
    sizes.workspace = Bytes(0);
  const Program frugal = lower(plan, without_workspace, options).value();
  TrainingSettings settings = settings_for_tests();
  settings.optimizer = sgd({0.9, 0, false});
  Executor executor(model, program, settings);
  const int minibatches = program.minibatches_outside + 6;
  const Executed run =
      executor.run(one_microbatch(model, plan.microbatch), minibatches).value();
  const auto bounds = memory_bounds(program);
  for (int w = 0; w < program.num_workers(); ++w) {
    CAPTURE(w);
    const auto index = static_cast<std::size_t>(w);
    const std::int64_t measured =
        run.timeline.workers[index].peak.total().value();
    const std::int64_t most = bounds[index].peak.total().value() +
                              statistics_of(model, program, WorkerId(w)) +
                              sums_of(program, WorkerId(w)) +
                              step_of(model, program, WorkerId(w)) + kSeeds;
    const std::int64_t least =
        OwnWork(frugal, WorkerId(w)).most(program.repetitions(minibatches));
    CHECK(measured <= most);
    // What two workers keep is gone when both have let go of it: the program
    // has it at the maker until its backward ends, which may be later.
    const bool is_alone = program.num_workers() == 1;
    CHECK(measured >= (is_alone ? least : least * 8 / 10));
    ++counts.workers;
    counts.exact += most - measured <= kSeeds;
    counts.predicted += most;
    counts.measured += measured;
  }
}

TEST_CASE("memory of every synchronous schedule on 1 to 3 workers") {
  Counts counts;
  for (const ScheduleGenerator& generator : schedule_generators())
    for (int workers = 1; workers <= 3; ++workers) {
      const auto schedule =
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
  MESSAGE(counts.workers, " workers, ", counts.exact, " exactly; measured ",
          100 * counts.measured / counts.predicted, " % of what was proved");
  CHECK(counts.workers > 250);
  CHECK(counts.measured > 0.8 * static_cast<double>(counts.predicted));
}

// Replicas that split each microbatch, some of them ahead of the others. Each
// has as many samples as were profiled.
TEST_CASE("memory of replicas") {
  Counts counts;
  for (const std::string generator : {"gpipe", "1f1b"})
    for (const int stages : {1, 2})
      for (const int replicas : {2, 4})
        for (const auto& [name, model] : models()) {
          CAPTURE(generator);
          CAPTURE(stages);
          CAPTURE(replicas);
          CAPTURE(name);
          const Schedule schedule =
              with_replicas(generated(generator, stages, kMicrobatches),
                            std::vector<int>(stages, replicas),
                            Replication::Split)
                  .value();
          check(name, plan_of(model, schedule, replicas * kMicrobatch), counts);
        }
  MESSAGE(counts.workers, " workers; measured ",
          100 * counts.measured / counts.predicted, " % of what was proved");
  CHECK(counts.workers == 2 * 3 * (2 + 4 + 4 + 8));
}

TEST_CASE("memory where stages recompute") {
  Counts counts;
  for (const std::string generator : {"gpipe", "1f1b", "zb-h1"})
    for (int workers = 1; workers <= 3; ++workers)
      for (const auto& [name, model] : models()) {
        Plan plan = plan_of(model, generated(generator, workers, kMicrobatches),
                            kMicrobatch);
        for (Stage& stage : plan.stages) stage.recompute = true;
        CAPTURE(generator);
        CAPTURE(workers);
        CAPTURE(name);
        check(name, plan, counts);
      }
  CHECK(counts.workers == 54);
}

TEST_CASE("memory where backward is cut elsewhere") {
  Counts counts;
  for (const std::string generator : {"gpipe", "1f1b", "zb-h1"})
    for (const int moved : {-2, -1, 1, 2})
      for (const auto& [name, model] : models()) {
        Plan plan =
            plan_of(model, generated(generator, 2, kMicrobatches), kMicrobatch);
        const int cut = plan.stages[1].forward.front().value + moved;
        for (Stage& stage : plan.stages) stage.backward.clear();
        for (int l = 0; l < model.num_layers(); ++l)
          plan.stages[l < cut ? 0 : 1].backward.push_back(LayerId(l));
        CAPTURE(generator);
        CAPTURE(moved);
        CAPTURE(name);
        check(name, plan, counts);
      }
  CHECK(counts.workers == 72);
}

// Without tied weights: their step waits for another worker, and a second
// minibatch's gradients begin beside those that wait.
TEST_CASE("memory of versions of weights") {
  Counts counts;
  for (const Method method :
       {Method::Stash, Method::TwoBw, Method::Naive, Method::PipeMare})
    for (int workers = 1; workers <= 3; ++workers)
      for (const int stages : {workers, 2 * workers})
        for (const std::string name : {"mlp", "cnn"}) {
          const Model& model = models().at(name);
          if (method == Method::TwoBw && stages > kMicrobatches) continue;
          CAPTURE(to_text(method));
          CAPTURE(workers);
          CAPTURE(stages);
          CAPTURE(name);
          Plan plan = async_plan(model, method, stages, workers, kMicrobatches);
          plan.microbatch = kMicrobatch;
          plan.minibatch = kMicrobatch * kMicrobatches;
          check(name, plan, counts);
        }
  CHECK(counts.workers == 90);
}

}  // namespace
}  // namespace pipewright
