// The simulator against the definition of execution, on thousands of random
// programs with random costs: every action starts as soon as its worker is free
// and its dependencies have arrived, no earlier and no later, and the order of
// all starts is one that the definition allows.

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "pipewright/plan/program/execution.h"
#include "pipewright/plan/validation/validate.h"
#include "pipewright/simulate/engine/compile.h"
#include "pipewright/simulate/engine/engine.h"
#include "pipewright/simulate/history/spans.h"
#include "tests/plan/program/random_lowered.h"
#include "tests/simulate/random_programs.h"

namespace pipewright {
namespace {

using namespace test;

struct Seen {
  int programs = 0, works = 0;
  // Waits that took time, of the second of a joined pair alone, of the Reduce
  // of a norm, for weights.
  int joined = 0, norms = 0, weights = 0;
};

struct Carried {
  double start = 0, arrival = 0;
  double ready = 0;  // by the definition: sent and posted, or all contributed
};

class Conformance {
 public:
  Conformance(const Program& program, const Costs& costs, int repetitions,
              Seen& seen)
      : program_(program),
        repetitions_(repetitions),
        seen_(seen),
        code_(compile(program, costs)) {
    EngineOptions options;
    options.repetitions = repetitions;
    options.keep_journal = true;
    journal_ = execute(code_, options).journal;
    for (const auto& channel : journal_.messages)
      for (const CarriedMessage& message : channel) {
        Carried& carried = carried_[dependency_of(message)];
        carried = {message.start, message.arrival, 0};
        // Messages of one channel start one after the other.
        if (&message != &channel.front()) carried.ready = (&message - 1)->start;
      }
  }

  void check(bool is_direct) {
    for (std::size_t w = 0; w < program_.workers.size(); ++w) {
      lists_.push_back(unrolled(program_, WorkerId(w),
                                program_.minibatches_outside + repetitions_));
      check_worker(WorkerId(w));
    }
    for (const auto& [dependency, carried] : carried_) {
      REQUIRE(carried.start >= carried.ready);
      if (is_direct) REQUIRE(carried.start == carried.ready);
    }
    check_order();
    ++seen_.programs;
  }

 private:
  Dependency dependency_of(const CarriedMessage& message) const {
    const std::int32_t first = code_.network.first_reduction;
    if (message.transfer < first)
      return {TransferId(message.transfer), {}, message.key};
    return {{}, ReductionId(message.transfer - first), message.key};
  }

  // The latest arrival of what the action depends on.
  double arrival(WorkerId worker, const Action& action) {
    double latest = 0;
    all_dependencies(program_, worker, action, [&](const Dependency& one) {
      REQUIRE(carried_.count(one) == 1);
      latest = std::max(latest, carried_.at(one).arrival);
      return true;
    });
    return latest;
  }

  void check_worker(WorkerId worker) {
    const auto& list = lists_[worker.index()];
    std::vector<Span> works;
    for (const Span& span : spans_of(code_, journal_, worker))
      if (is_compute(span.kind) || span.kind == ActionKind::Step)
        works.push_back(span);
    auto& times = times_.emplace_back();
    std::size_t next = 0;
    double clock = 0;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Action& action = list[i];
      const double arrived = arrival(worker, action);
      if (!is_compute(action.kind) && action.kind != ActionKind::Step) {
        seen_.norms += arrived > clock;
        clock = std::max(clock, arrived);
        times.push_back(clock);
        communicate(action, clock);
        continue;
      }
      double start = std::max(clock, arrived);
      if (action.joined) {
        const double other = arrival(worker, list[i + 1]);
        seen_.joined += other > start;
        start = std::max(start, other);
      }
      count_weights(worker, action, clock);
      for (int part = 0; part <= int(action.joined); ++part, ++next, ++i) {
        REQUIRE(next < works.size());
        REQUIRE(works[next].kind == list[i].kind);
        REQUIRE(works[next].start.value() == start);
        times.push_back(start);
        clock = works[next].end.value();
        ++seen_.works;
      }
      --i;
    }
    REQUIRE(next == works.size());
  }

  void count_weights(WorkerId worker, const Action& action, double clock) {
    all_dependencies(program_, worker, action, [&](const Dependency& one) {
      seen_.weights += one.is_message() &&
                       program_.transfer(one.transfer).is_keyed_by_version() &&
                       carried_.at(one).arrival > clock;
      return true;
    });
  }

  void communicate(const Action& action, double time) {
    const Dependency makes =
        action.kind == ActionKind::Reduce
            ? Dependency{{},
                         action.reduction,
                         program_.minibatch_of(action.microbatch)}
            : Dependency{action.transfer, {}, program_.key(action)};
    REQUIRE(carried_.count(makes) == 1);
    double& ready = carried_.at(makes).ready;
    ready = std::max(ready, time);
  }

  // What starts at one moment may start in any order that the definition has.
  void check_order() const {
    std::set<double> moments;
    for (const auto& times : times_) moments.insert(times.begin(), times.end());
    ExecutionState state(program_, repetitions_,
                         matched_messages(program_, repetitions_));
    const auto is_due = [&](WorkerId worker, double now) {
      const auto at = static_cast<std::size_t>(state.position(worker));
      return !state.is_at_end(worker) && times_[worker.index()][at] <= now;
    };
    for (const double now : moments) {
      for (bool has_moved = true; has_moved;) {
        has_moved = false;
        for (std::size_t w = 0; w < state.num_workers(); ++w)
          while (is_due(WorkerId(w), now) && state.can_start(WorkerId(w))) {
            state.perform(WorkerId(w));
            has_moved = true;
          }
      }
      for (std::size_t w = 0; w < state.num_workers(); ++w)
        REQUIRE(!is_due(WorkerId(w), now));
    }
    REQUIRE(state.is_finished());
  }

  const Program& program_;
  const int repetitions_;
  Seen& seen_;
  const TimedCode code_;
  Journal journal_;
  std::map<Dependency, Carried> carried_;
  std::vector<std::vector<Action>> lists_;
  std::vector<std::vector<double>> times_;  // per worker and action: its start
};

Costs random_costs(const Program& program, std::mt19937& random) {
  const auto seconds = [&random] {
    return Seconds(random() % 3 ? static_cast<double>(random() % 20) : 0);
  };
  Costs costs;
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    Costs::OperationCost cost;
    for (Seconds& time : cost.compute) time = seconds();
    cost.step = seconds();
    costs.operations.push_back(cost);
  }
  for (std::size_t i = 0; i < program.transfers.size(); ++i) {
    Costs::TransferCost cost;
    cost.latency = seconds();
    cost.bandwidth = BytesPerSecond(std::numeric_limits<double>::infinity());
    costs.transfers.push_back(cost);
  }
  for (std::size_t i = 0; i < program.reductions.size(); ++i) {
    Costs::ReductionCost cost;
    cost.latency = seconds();
    costs.reductions.push_back(cost);
  }
  return costs;
}

void check_seen(const Seen& seen, int programs) {
  CHECK(seen.programs == programs);
  CHECK(seen.works > 10 * programs);
  CHECK(seen.joined > 200);
  CHECK(seen.norms > 200);
  CHECK(seen.weights > 200);
}

TEST_CASE("lowered plans are timed by the definition") {
  RandomLowered lowered(21);
  std::mt19937 random(21);
  Seen seen;
  for (int i = 0; i < 2000; ++i) {
    CAPTURE(i);
    const Program program = lowered.make().program;
    REQUIRE(validate(program).ok());
    Conformance(program, random_costs(program, random), 1 + i % 3, seen)
        .check(true);
  }
  check_seen(seen, 2000);
}

TEST_CASE("programs that no plan makes are timed by the definition") {
  Seen seen;
  for (unsigned seed = 1; seed <= 2000; ++seed) {
    CAPTURE(seed);
    const RandomProgram random =
        RandomPrograms(seed).make({.finite_links = seed % 2 == 0,
                                   .half_duplex = seed % 4 == 0,
                                   .shared = seed % 8 == 0,
                                   .rings = seed % 8 == 0,
                                   .chained = seed % 3 != 0,
                                   .whole_seconds = seed % 5 == 0});
    Conformance(random.program, random.costs, static_cast<int>(seed % 4), seen)
        .check(seed % 2 == 1);
  }
  check_seen(seen, 2000);
}

// A worker with two stages in a reduction has one Reduce, which names the stage
// that is done last: another one, it may be, while the pipeline fills.
TEST_CASE("a worker contributes once, whichever of its stages a Reduce names") {
  Seen seen;
  int changed = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    RandomProgram random =
        RandomPrograms(seed).make({.finite_links = false, .chained = true});
    for (WorkerProgram& worker : random.program.workers)
      for (Action& action : worker.prologue)
        if (action.kind == ActionKind::Reduce) {
          action.stage = StageId(action.stage.value + 1);
          ++changed;
        }
    Conformance(random.program, random.costs, 2, seen).check(true);
  }
  CHECK(seen.programs == 300);
  CHECK(changed > 300);
}

}  // namespace
}  // namespace pipewright
