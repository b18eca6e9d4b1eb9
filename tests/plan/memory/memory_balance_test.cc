// What a run allocates it frees: on every worker the effects of actions and
// transfers add up to nothing.

#include <doctest/doctest.h>

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

}  // namespace

TEST_CASE("what a run allocates it frees") {
  std::mt19937 random(5);
  int balanced = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto& generators = schedule_generators();
    const ScheduleGenerator& generator =
        generators[static_cast<std::size_t>(i) % generators.size()];
    ScheduleRequest request;
    request.workers = 1 + static_cast<int>(random() % 4);
    request.microbatches = 1 + static_cast<int>(random() % 4);
    Result<Schedule> schedule = generate_schedule(generator.name, request);
    if (!schedule) continue;
    Replication replication = Replication::Rotate;
    if (generator.name != "chimera" && random() % 2) {
      replication = random() % 2 ? Replication::Rotate : Replication::Split;
      std::vector<int> replicas;
      for (int w = 0; w < request.workers; ++w)
        replicas.push_back(1 + static_cast<int>(random() % 3));
      schedule = with_replicas(*schedule, replicas, replication);
      if (!schedule) continue;
    }
    Plan plan = plan_of_schedule(
        *schedule, schedule->is_asynchronous() ? Method::Stash : Method::Sync,
        replication);
    set_stages(plan, random);
    Profile profile = chain_with_skips(2 * schedule->num_stages(), random);
    for (auto& layer : profile.layers) layer.keeps_output = random() % 2;
    for (auto& sizes : profile.sizes[1])
      sizes = {Bytes(6 * (10 + static_cast<int>(random() % 90))),
               Bytes(6 * static_cast<int>(random() % 9)), Bytes(0)};
    LowerOptions options;
    options.shares_memory = i % 4 == 0;
    Result<Program> program = lower(plan, profile, options);
    if (!program) continue;
    CAPTURE(generator.name);
    CAPTURE(options.shares_memory);
    CAPTURE(i);
    for (int w = 0; w < program->num_workers(); ++w)
      CHECK(balance(*program, WorkerId(w)) == 0);
    ++balanced;
  }
  CHECK(balanced > 1000);
}

}  // namespace pipewright
