// What a run allocates it frees: on every worker the effects of actions and
// transfers add up to nothing.

#include <doctest/doctest.h>

#include <optional>
#include <random>

#include "pipewright/plan/lowering/lower.h"
#include "tests/plan/chain.h"

namespace pipewright {
namespace {

std::int64_t balance(const Program& program, WorkerId worker) {
  std::int64_t bytes = 0;
  const int minibatches = program.minibatches_outside + 2;
  for (const Action& action : unrolled(program, worker, minibatches)) {
    if (is_compute(action.kind)) {
      const Effect& effect = program.life(action).effect;
      bytes += effect.allocates.value() - effect.frees.value();
    } else if (action.kind == ActionKind::Send) {
      bytes -= program.transfer(action.transfer).freed_by_sender.value();
    } else if (action.kind == ActionKind::Receive) {
      bytes += program.transfer(action.transfer).retained_by_reader.value();
    }
  }
  return bytes;
}

// A plan of a random schedule with random replicas, cuts and recomputation.
std::optional<Plan> random_plan(std::mt19937& random) {
  const auto& generators = schedule_generators();
  const ScheduleGenerator& generator = generators[random() % generators.size()];
  ScheduleRequest request;
  request.workers = 1 + static_cast<int>(random() % 4);
  request.microbatches = 1 + static_cast<int>(random() % 4);
  Result<Schedule> schedule = generate_schedule(generator.name, request);
  if (!schedule) return std::nullopt;
  Replication replication = Replication::Rotate;
  if (generator.name != "chimera" && random() % 2) {
    replication = random() % 2 ? Replication::Rotate : Replication::Split;
    std::vector<int> replicas;
    for (int w = 0; w < request.workers; ++w)
      replicas.push_back(1 + static_cast<int>(random() % 3));
    schedule = with_replicas(*schedule, replicas, replication);
    if (!schedule) return std::nullopt;
  }
  Plan plan = plan_of_schedule(
      *schedule, schedule->is_asynchronous() ? Method::Stash : Method::Sync,
      replication);
  set_stages(plan, random);
  for (Stage& stage : plan.stages) stage.recompute = random() % 2;
  return plan;
}

// Whether there is such a plan; checks it.
bool is_balanced(unsigned seed) {
  std::mt19937 random(seed);
  const std::optional<Plan> plan = random_plan(random);
  if (!plan) return false;
  Profile profile = chain_with_skips(2 * plan->num_stages(), random);
  for (auto& layer : profile.layers) layer.keeps_output = random() % 2;
  for (auto& sizes : profile.sizes[1])
    sizes = {Bytes(6 * (10 + static_cast<int>(random() % 90))),
             Bytes(6 * static_cast<int>(random() % 9)), Bytes(0)};
  LowerOptions options;
  options.shares_memory = random() % 2;
  const Result<Program> program = lower(*plan, profile, options);
  if (!program) return false;
  CAPTURE(seed);
  CAPTURE(options.shares_memory);
  for (int w = 0; w < program->num_workers(); ++w)
    CHECK(balance(*program, WorkerId(w)) == 0);
  return true;
}

}  // namespace

TEST_CASE("what a run allocates it frees") {
  int plans = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) plans += is_balanced(seed);
  CHECK(plans > 2500);
}

// Rare cases of the same, each a few in ten thousand plans.
TEST_CASE("what a run allocates it frees, in plans where it did not") {
  // A value that is sent on before its transfer is read for the last time.
  CHECK(is_balanced(40294));
  // Slices of one value, some of which their maker holds.
  for (unsigned seed : {37713U, 43230U}) CHECK(is_balanced(seed));
  // What F made is held for others when R makes it anew, and W is late.
  for (unsigned seed : {1060U, 2192U, 3008U, 5031U, 13704U, 18318U, 19864U,
                        21331U, 41451U, 45355U})
    CHECK(is_balanced(seed));
}

}  // namespace pipewright
