#include "pipewright/plan/validation/validate.h"

#include <doctest/doctest.h>

#include <chrono>
#include <random>

#include "pipewright/plan/lowering/lower.h"
#include "tests/plan/chain.h"

namespace pipewright {
namespace {

int up_to(std::mt19937& random, int most) {
  return 1 + static_cast<int>(random() % static_cast<unsigned>(most));
}

// Small ones often, large ones now and then.
int size_up_to(std::mt19937& random, int most) {
  return up_to(random, random() % 16 == 0 ? most : std::min(most, 6));
}

}  // namespace

TEST_CASE("every generator's programs are valid") {
  std::mt19937 random(7);
  const auto& generators = schedule_generators();
  int valid = 0, refused = 0;
  for (int i = 0; i < 10000; ++i) {
    const ScheduleGenerator& generator =
        generators[static_cast<std::size_t>(i) % generators.size()];
    ScheduleRequest request;
    request.workers = size_up_to(random, 16);
    request.microbatches = size_up_to(random, 64);
    request.stages_per_worker = up_to(random, 4);
    Result<Schedule> schedule = generate_schedule(generator.name, request);
    if (!schedule) {
      CHECK(schedule.error().code == ErrorCode::BadConfiguration);
      ++refused;
      continue;
    }
    std::vector<int> replicas;
    for (int w = 0; w < request.workers; ++w)
      replicas.push_back(up_to(random, 3));
    const Replication replication =
        random() % 2 ? Replication::Split : Replication::Rotate;
    Result<Schedule> replicated =
        with_replicas(*schedule, replicas, replication);
    const bool plain = random() % 3 == 0 || !replicated;
    CAPTURE(generator.name);
    CAPTURE(request.workers);
    CAPTURE(request.microbatches);
    CAPTURE(request.stages_per_worker);
    CAPTURE(plain);
    const Schedule& chosen = plain ? *schedule : *replicated;
    const bool turns = plain ? generator.name == "chimera"
                             : replication == Replication::Rotate;
    Method method = Method::Sync;
    if (chosen.is_asynchronous())
      method = kMethods[1 + random() % (kMethods.size() - 1)];
    const Plan plan = plan_of_schedule(
        chosen, method, turns ? Replication::Rotate : Replication::Split);
    Result<Program> program =
        lower(plan, chain_with_skips(chosen.num_stages(), random));
    if (!program) {
      ++refused;
      continue;
    }
    Result<ProgramFacts> facts = validate(*program);
    INFO((facts ? std::string() : facts.error().to_text()));
    REQUIRE(facts.ok());
    ++valid;
  }
  MESSAGE(valid << " valid programs, " << refused << " requests refused");
  CHECK(valid > 5000);
}

}  // namespace pipewright
