// How far senders may get ahead: programs of every schedule and method get to
// the end with the capacity that an even execution needs, for many more
// minibatches than it was found with.

#include "pipewright/plan/program/send_capacity.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "pipewright/plan/lowering/forward_program.h"
#include "pipewright/plan/lowering/lower.h"
#include "tests/plan/chain.h"

namespace pipewright {
namespace {

Result<Schedule> schedule_of(const std::string& name, int workers,
                             int microbatches) {
  ScheduleRequest request;
  request.workers = workers;
  request.microbatches = microbatches;
  return generate_schedule(name, request);
}

Program lowered(const Schedule& schedule, Method method = Method::Sync,
                Replication replication = Replication::Split) {
  return lower(plan_of_schedule(schedule, method, replication),
               chain(schedule.num_stages()))
      .value();
}

void check(const Program& program) {
  const std::vector<int> capacity = needed_send_capacity(program, 4);
  CHECK(is_enough(capacity, program, 4));
  CHECK(is_enough(capacity, program, 15));
  CHECK(!is_enough(std::vector<int>(capacity.size(), 0), program, 4));
}

TEST_CASE("every schedule gets to the end with the capacity it needs") {
  int checked = 0;
  for (const ScheduleGenerator& generator : schedule_generators())
    for (const int workers : {2, 3, 4}) {
      const auto schedule = schedule_of(generator.name, workers, 6);
      if (!schedule || schedule->is_asynchronous()) continue;
      CAPTURE(generator.name);
      CAPTURE(workers);
      check(lowered(*schedule, Method::Sync,
                    generator.name == "chimera" ? Replication::Rotate
                                                : Replication::Split));
      ++checked;
    }
  CHECK(checked > 24);
}

TEST_CASE("so do asynchronous methods and replicas") {
  for (const Method method : kMethods) {
    if (!is_asynchronous(method)) continue;
    CAPTURE(to_text(method));
    for (const int workers : {2, 3, 4})
      check(lowered(*schedule_of("async-1f1b", workers, 4), method));
  }
  for (const Replication replication :
       {Replication::Split, Replication::Rotate})
    check(
        lowered(*with_replicas(*schedule_of("1f1b", 2, 4), {1, 3}, replication),
                Method::Sync, replication));
}

TEST_CASE("an evaluation of many microbatches needs capacity for few") {
  const Program forward =
      forward_program(lowered(*schedule_of("1f1b", 3, 4)), chain(3), 500);
  const std::vector<int> needed = needed_send_capacity(forward, 0);
  CHECK(*std::max_element(needed.begin(), needed.end()) <= 4);
  CHECK(is_enough(needed, forward, 0));
  SendCapacity capacity(forward);
  for (std::size_t t = 0; t < forward.transfers.size(); ++t)
    CHECK(capacity.of(TransferId(t)) == SendCapacity::kMinimum);
}

// Forward and backward cut at different places: what is saved goes from one
// worker to the other, and gpipe keeps all of it until the backward.
TEST_CASE("a program that needs a larger capacity has it") {
  constexpr int kLayers = 6;
  Plan plan = plan_of_schedule(*schedule_of("gpipe", 2, 100), Method::Sync,
                               Replication::Split);
  for (Stage& stage : plan.stages) stage.forward = stage.backward = {};
  for (int l = 0; l < kLayers; ++l) {
    plan.stages[l < kLayers - 2 ? 0 : 1].forward.push_back(LayerId(l));
    plan.stages[l < 2 ? 0 : 1].backward.push_back(LayerId(l));
  }
  const Program program = lower(plan, chain(kLayers)).value();
  SendCapacity capacity(program);
  std::vector<int> all;
  for (std::size_t t = 0; t < program.transfers.size(); ++t)
    all.push_back(capacity.of(TransferId(t)));
  CHECK(*std::max_element(all.begin(), all.end()) > SendCapacity::kMinimum);
  CHECK(is_enough(all, program, 10));
  const std::vector<int> minimum(all.size(), SendCapacity::kMinimum);
  CHECK(!is_enough(minimum, program, 1));
}

}  // namespace
}  // namespace pipewright
