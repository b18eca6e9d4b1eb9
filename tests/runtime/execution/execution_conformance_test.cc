// Worker threads against the definition of execution, on random programs: each
// action waits for what the definition says and for nothing else, and the order
// in which all workers start their actions is one that the definition allows.

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <set>
#include <tuple>

#include "pipewright/plan/program/execution.h"
#include "pipewright/plan/validation/validate.h"
#include "pipewright/runtime/channels/transport.h"
#include "pipewright/runtime/execution/executor.h"
#include "pipewright/runtime/reference/interpreter.h"
#include "tests/plan/program/random_lowered.h"
#include "tests/runtime/test_models.h"

namespace pipewright {
namespace {

using namespace testing;

constexpr int kMicrobatch = 4;

enum class Call {
  Before,  // the worker comes to an action
  Wait,    // take() or reduced() has returned
  Give,    // send(), post() or contribute() is called
};

struct Event {
  Call call = Call::Before;
  std::int64_t moment = 0;  // all workers' calls count together
  Action action;            // of Before
  Dependency what;          // of others
};
using Log = std::vector<Event>;  // of one worker

class RecordingChannel final : public Channel {
 public:
  RecordingChannel(std::unique_ptr<Channel> inner, const Program& program,
                   Log& log, std::atomic<std::int64_t>& moment)
      : inner_(std::move(inner)),
        program_(program),
        log_(log),
        moment_(moment) {}

  void before(const Action& action, std::int64_t microbatch) override {
    log_.push_back({Call::Before, moment_++, action, {}});
    inner_->before(action, microbatch);
  }
  void send(TransferId transfer, std::int32_t key, Values&& values) override {
    note(Call::Give, {transfer, {}, key});
    inner_->send(transfer, key, std::move(values));
  }
  void post(TransferId transfer, std::int32_t key) override {
    note(Call::Give, {transfer, {}, key});
    inner_->post(transfer, key);
  }
  void take(TransferId transfer, std::int32_t key, Values& values) override {
    inner_->take(transfer, key, values);
    note(Call::Wait, {transfer, {}, key});
  }
  void contribute(ReductionId reduction, MicrobatchId microbatch,
                  std::vector<Contribution>&& contributions) override {
    note(Call::Give, {{}, reduction, program_.minibatch_of(microbatch)});
    inner_->contribute(reduction, microbatch, std::move(contributions));
  }
  void reduced(ReductionId reduction, MicrobatchId microbatch,
               Tensors& sums) override {
    inner_->reduced(reduction, microbatch, sums);
    note(Call::Wait, {{}, reduction, program_.minibatch_of(microbatch)});
  }
  void cancel() override { inner_->cancel(); }

 private:
  void note(Call call, const Dependency& what) {
    log_.push_back({call, moment_++, {}, what});
  }

  std::unique_ptr<Channel> inner_;
  const Program& program_;
  Log& log_;
  std::atomic<std::int64_t>& moment_;
};

class RecordingTransport final : public Transport {
 public:
  int rank() const override { return 0; }
  int num_ranks() const override { return 1; }
  bool is_here(WorkerId) const override { return true; }
  std::vector<std::unique_ptr<Channel>> connect(
      const Program& program) override {
    auto channels = inner_->connect(program);
    logs.assign(channels.size(), {});
    for (std::size_t w = 0; w < channels.size(); ++w)
      channels[w] = std::make_unique<RecordingChannel>(
          std::move(channels[w]), program, logs[w], moment_);
    return channels;
  }
  std::vector<std::string> gather(std::string mine) override {
    return {std::move(mine)};
  }
  std::string broadcast(std::string leaders) override { return leaders; }

  std::vector<Log> logs;  // per worker, of the latest run

 private:
  std::unique_ptr<Transport> inner_ = in_process_transport();
  std::atomic<std::int64_t> moment_ = 0;
};

struct Seen {
  int programs = 0, messages = 0;  // that were waited for
  // Waits of a joined action for the next one, of norms for sums, for weights.
  int joined = 0, norms = 0, weights = 0;
};

using Dependencies = std::set<Dependency>;

void add_dependencies(const Program& program, WorkerId worker,
                      const Action& action, Dependencies& to) {
  all_dependencies(program, worker, action, [&](const Dependency& one) {
    to.insert(one);
    return true;
  });
}

bool gives(ActionKind kind) {
  return kind == ActionKind::Send || kind == ActionKind::Receive ||
         kind == ActionKind::Reduce;
}

// Of one worker; answers with the moment at which each action started.
std::vector<std::int64_t> check_waits(const Program& program, WorkerId worker,
                                      const std::vector<Action>& list,
                                      const Log& log, Seen& seen) {
  std::vector<std::int64_t> starts;
  Dependencies taken;  // messages so far
  auto event = log.begin();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Action& action = list[i];
    REQUIRE(event != log.end());
    REQUIRE(event->call == Call::Before);
    REQUIRE((event->action == action));
    std::int64_t start = (event++)->moment;
    Dependencies waited, expected, own;
    for (; event != log.end() && event->call == Call::Wait; ++event) {
      CHECK(waited.insert(event->what).second);
      start = event->moment;
    }
    add_dependencies(program, worker, action, expected);
    own = expected;
    if (action.joined) add_dependencies(program, worker, list[i + 1], expected);
    std::erase_if(expected, [&](const Dependency& one) {
      return one.is_message() && taken.count(one) > 0;
    });
    REQUIRE((waited == expected));
    for (const Dependency& one : waited) {
      seen.joined += own.count(one) == 0;
      seen.norms += action.kind == ActionKind::Reduce;
      if (!one.is_message()) continue;
      taken.insert(one);
      ++seen.messages;
      seen.weights += program.transfer(one.transfer).is_keyed_by_version();
    }
    if (gives(action.kind)) {
      REQUIRE(event != log.end());
      REQUIRE(event->call == Call::Give);
      const Dependency given =
          action.kind == ActionKind::Reduce
              ? Dependency{{},
                           action.reduction,
                           program.minibatch_of(action.microbatch)}
              : Dependency{action.transfer, {}, program.key(action)};
      REQUIRE((event->what == given));
      start = (event++)->moment;
    }
    starts.push_back(start);
  }
  REQUIRE(event == log.end());
  return starts;
}

void check_run(const Program& program, int minibatches,
               const std::vector<Log>& logs, Seen& seen) {
  std::vector<std::tuple<std::int64_t, WorkerId>> order;
  for (std::size_t w = 0; w < logs.size(); ++w)
    for (const std::int64_t start : check_waits(
             program, WorkerId(w), unrolled(program, WorkerId(w), minibatches),
             logs[w], seen))
      order.emplace_back(start, WorkerId(w));
  std::sort(order.begin(), order.end());
  const int repetitions = program.repetitions(minibatches);
  ExecutionState state(program, repetitions,
                       matched_messages(program, repetitions));
  for (const auto& [start, worker] : order) {
    REQUIRE(state.can_start(worker));
    state.perform(worker);
  }
  REQUIRE(state.is_finished());
  ++seen.programs;
}

class RandomRuns {
 public:
  explicit RandomRuns(unsigned seed) : random_(seed) {}

  // Nothing for a request that is refused.
  std::optional<Program> program_for(const Model& model) {
    const auto& generators = schedule_generators();
    Result<Schedule> schedule = generated_if_possible(
        generators[random_() % generators.size()].name, up_to(3), up_to(4));
    if (schedule && one_in(2)) {
      std::vector<int> replicas;
      for (int w = 0; w < schedule->num_workers(); ++w)
        replicas.push_back(up_to(2));
      schedule =
          with_replicas(*schedule, replicas,
                        one_in(2) ? Replication::Rotate : Replication::Split);
    }
    if (!schedule || schedule->num_stages() > model.num_layers() ||
        schedule->num_workers() > 5)
      return std::nullopt;
    Method method = Method::Sync;
    if (schedule->is_asynchronous())
      method = kMethods[1 + random_() % (kMethods.size() - 1)];
    Plan plan = plan_of(
        model, one_in(3) ? *schedule : with_random_pairs(*schedule, random_),
        kMicrobatch, method);
    if (one_in(3)) move_backward_cuts(plan);
    for (Stage& stage : plan.stages) stage.recompute = one_in(5);
    LowerOptions options;
    options.window = up_to(4);
    options.global_norm = method == Method::Sync && one_in(2);
    auto program = lower(plan, profile_of(model, kMicrobatch), options);
    if (!program) return std::nullopt;
    return *std::move(program);
  }

 private:
  bool one_in(unsigned n) { return random_() % n == 0; }
  int up_to(int most) {
    return 1 + static_cast<int>(random_() % static_cast<unsigned>(most));
  }
  void move_backward_cuts(Plan& plan) {
    for (std::size_t s = 0; s + 1 < plan.stages.size(); ++s) {
      auto& here = plan.stages[s].backward;
      auto& next = plan.stages[s + 1].backward;
      if (one_in(2) && here.size() > 1) {
        next.insert(next.begin(), here.back());
        here.pop_back();
      } else if (one_in(2) && next.size() > 1) {
        here.push_back(next.front());
        next.erase(next.begin());
      }
    }
  }

  std::mt19937 random_;
};

TEST_CASE("workers wait for what the definition says, and for nothing else") {
  const Model models[] = {small_mlp(), small_gpt(), small_cnn()};
  RandomRuns runs(2);
  Seen seen;
  for (int i = 0; i < 1200; ++i) {
    const Model& model = models[i % 3];
    const auto program = runs.program_for(model);
    if (!program) continue;
    CAPTURE(i);
    CAPTURE(model.name());
    const auto valid = validate(*program);
    REQUIRE_MESSAGE(valid.ok(), (valid.ok() ? "" : valid.error().to_text()));
    TrainingSettings settings = settings_for_tests();
    // Stale weights diverge at 0.05, in the interpreter, too.
    settings.learning_rate = [](std::int64_t) { return 0.001; };
    const MicrobatchSource source = random_source(model, kMicrobatch);
    const int minibatches = program->minibatches_outside + 2;
    RecordingTransport transport;
    Executor executor(model, *program, settings, &transport);
    const auto run = executor.run(source, minibatches);
    REQUIRE_MESSAGE(run.ok(), (run.ok() ? "" : run.error().to_text()));
    check_run(*program, minibatches, transport.logs, seen);
    const auto expected =
        interpret(model, *program, settings, source, minibatches);
    REQUIRE(expected.ok());
    CHECK(is_identical(executor.trained(), *expected));
  }
  MESSAGE(seen.programs << " programs, " << seen.messages << " messages, "
                        << seen.joined << " waits of joined actions, "
                        << seen.norms << " of norms, " << seen.weights
                        << " for weights");
  CHECK(seen.programs > 1000);
  CHECK(seen.joined > 400);
  CHECK(seen.norms > 1000);
  CHECK(seen.weights > 200);
}

}  // namespace
}  // namespace pipewright
