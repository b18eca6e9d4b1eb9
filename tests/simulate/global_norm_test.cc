// A step that waits for the norm of all gradients: valid under every
// synchronous schedule, found out where it would hang, and timed.

#include <doctest/doctest.h>

#include <random>
#include <set>

#include "pipewright/cluster/cluster.h"
#include "pipewright/plan/lowering/forward_program.h"
#include "pipewright/plan/lowering/lower.h"
#include "pipewright/plan/validation/validate.h"
#include "pipewright/simulate/simulate.h"
#include "tests/plan/chain.h"

namespace pipewright {
namespace {

Program with_norm(const Plan& plan, const Profile& profile) {
  LowerOptions options;
  options.global_norm = true;
  return lower(plan, profile, options).value();
}

struct NormCase {
  Plan plan;
  Profile profile;
};

// Some synchronous schedule with replicas or without; none for a request that
// its generator or lowering refuses.
std::optional<NormCase> some_case(std::mt19937& random) {
  const auto& generators = schedule_generators();
  ScheduleRequest request;
  request.workers = 1 + static_cast<int>(random() % 4);
  request.microbatches = 4 + static_cast<int>(random() % 4);
  Result<Schedule> schedule =
      generate_schedule(generators[random() % generators.size()].name, request);
  if (!schedule || schedule->is_asynchronous()) return std::nullopt;
  std::vector<int> replicas;
  for (int w = 0; w < request.workers; ++w)
    replicas.push_back(1 + static_cast<int>(random() % 2));
  const Replication replication =
      random() % 2 ? Replication::Split : Replication::Rotate;
  if (auto more = with_replicas(*schedule, replicas, replication);
      more && random() % 2)
    schedule = std::move(more);
  NormCase made{plan_of_schedule(*schedule, Method::Sync, replication),
                chain(schedule->num_stages())};
  if (!lower(made.plan, made.profile)) return std::nullopt;
  return made;
}

TEST_CASE("a norm is valid with every schedule, and every step waits for it") {
  std::mt19937 random(11);
  int tried = 0;
  for (int i = 0; i < 400; ++i) {
    const auto made = some_case(random);
    if (!made) continue;
    const Program program = with_norm(made->plan, made->profile);
    const auto valid = validate(program);
    REQUIRE_MESSAGE(valid.ok(), (valid.ok() ? "" : valid.error().to_text()));
    const ReductionId norm(program.reductions.size() - 1);
    REQUIRE(program.reductions.back().is_norm);
    for (const WorkerProgram& worker : program.workers)
      for (const Action& action : worker.body) {
        if (action.kind != ActionKind::Step) continue;
        const auto& waits = program.reads(action).reductions;
        CHECK(std::count(waits.begin(), waits.end(), norm) == 1);
      }
    ++tried;
  }
  CHECK(tried > 150);
}

TEST_CASE("nobody steps before the last gradient of all") {
  std::mt19937 random(5);
  const Cluster cluster = load_cluster("8xcpu").value();
  int tried = 0;
  for (int i = 0; i < 100; ++i) {
    const auto made = some_case(random);
    if (!made) continue;
    Profile profile = made->profile;
    profile.sizes[6] = profile.sizes[1];
    const Program program = with_norm(made->plan, profile);
    const auto costs = costs_of(program, profile, cluster);
    if (!costs) continue;
    const Timeline timeline = simulate(program, *costs);
    Seconds last_gradient(0), first_step(1e30);
    for (const auto& spans : timeline.spans)
      for (const Span& span : spans) {
        if (span.kind == ActionKind::Backward ||
            span.kind == ActionKind::BackwardWeight)
          last_gradient = std::max(last_gradient, span.end);
        if (span.kind == ActionKind::Step)
          first_step = std::min(first_step, span.start);
      }
    CHECK(first_step >= last_gradient);
    ++tried;
  }
  CHECK(tried > 20);
}

TEST_CASE("a norm handed in before its sums are there is found out") {
  ScheduleRequest request;
  request.workers = 2;
  request.microbatches = 4;
  const Schedule schedule =
      with_replicas(generate_schedule("1f1b", request).value(), {2, 1},
                    Replication::Split)
          .value();
  const Plan plan =
      plan_of_schedule(schedule, Method::Sync, Replication::Split);
  Program program = with_norm(plan, chain(2));
  REQUIRE(validate(program).ok());
  auto& body = program.workers[0].body;
  std::vector<Action*> reduces;
  for (Action& action : body)
    if (action.kind == ActionKind::Reduce) reduces.push_back(&action);
  REQUIRE(reduces.size() == 2);
  std::swap(*reduces[0], *reduces[1]);
  CHECK(!validate(program).ok());  // it would wait for itself
}

TEST_CASE("the forward half has every forward once, and what they read") {
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    const auto made = some_case(random);
    if (!made) continue;
    const Program whole = lower(made->plan, made->profile).value();
    const int microbatches = 1 + static_cast<int>(random() % 11);
    const Program half = forward_program(whole, made->profile, microbatches);
    std::map<std::pair<TransferId, MicrobatchId>, int> travels;
    std::map<std::pair<StageId, MicrobatchId>, int> forwards;
    for (std::size_t w = 0; w < half.workers.size(); ++w) {
      std::set<std::pair<TransferId, MicrobatchId>> posted;
      for (const Action& action : unrolled(half, WorkerId(w), 1)) {
        if (action.kind == ActionKind::Send)
          ++travels[{action.transfer, action.microbatch}];
        if (action.kind == ActionKind::Receive) {
          --travels[{action.transfer, action.microbatch}];
          posted.insert({action.transfer, action.microbatch});
        }
        if (action.kind != ActionKind::Forward) continue;
        ++forwards[{action.stage, action.microbatch}];
        for (const TransferId id : half.reads(action).transfers)
          CHECK(posted.count({id, action.microbatch}) == 1);
      }
    }
    for (const auto& [what, balance] : travels) CHECK(balance == 0);
    CHECK(forwards.size() ==
          static_cast<std::size_t>(microbatches * whole.num_stages));
  }
}

}  // namespace
}  // namespace pipewright
