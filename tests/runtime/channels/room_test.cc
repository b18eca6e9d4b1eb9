// How far senders may get ahead: programs of every schedule and method get by
// with the room that an execution in step takes, for many more minibatches than
// it was found with.

#include "pipewright/runtime/channels/room.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "pipewright/plan/lowering/forward_program.h"
#include "pipewright/plan/lowering/lower.h"
#include "pipewright/schedules/generator.h"
#include "tests/runtime/test_models.h"

namespace pipewright {
namespace {

using namespace testing;

Program lowered(const Schedule& schedule, Method method = Method::Sync) {
  const Model model = small_gpt();
  return lower(plan_of(model, schedule, 4, method), profile_of(model, 4))
      .value();
}

void check(const Program& program) {
  const std::vector<int> room = needed_room(program, 4);
  CHECK(gets_by_with(room, program, 4));
  CHECK(gets_by_with(room, program, 15));
  CHECK(!gets_by_with(std::vector<int>(room.size(), 0), program, 4));
}

TEST_CASE("every schedule gets by with the room it needs") {
  int checked = 0;
  for (const ScheduleGenerator& generator : schedule_generators())
    for (const int workers : {2, 3, 4}) {
      const Result<Schedule> schedule =
          generated_if_possible(generator.name, workers, 6);
      if (!schedule || schedule->is_asynchronous() ||
          schedule->num_stages() > small_gpt().num_layers())
        continue;
      CAPTURE(generator.name);
      CAPTURE(workers);
      check(lowered(*schedule));
      ++checked;
    }
  CHECK(checked > 24);
}

TEST_CASE("so do asynchronous methods and replicas") {
  for (const Method method : kMethods) {
    if (!is_asynchronous(method)) continue;
    CAPTURE(to_text(method));
    for (const int workers : {2, 3, 4})
      check(lowered(generated("async-1f1b", workers, 4), method));
  }
  for (const Replication replication :
       {Replication::Split, Replication::Rotate})
    check(lowered(
        with_replicas(generated("1f1b", 2, 4), {1, 3}, replication).value()));
}

TEST_CASE("an evaluation of many microbatches needs room for few") {
  const Program forward = forward_program(lowered(generated("1f1b", 3, 4)),
                                          profile_of(small_gpt(), 4), 500);
  const std::vector<int> room = needed_room(forward, 0);
  CHECK(*std::max_element(room.begin(), room.end()) <= 4);
  CHECK(gets_by_with(room, forward, 0));
  Room bounded(forward);
  for (std::size_t t = 0; t < forward.transfers.size(); ++t)
    CHECK(bounded.of(TransferId(t)) == Room::kLeast);
}

// Forward and backward cut at different places: what is saved goes from one
// worker to the other, and gpipe keeps all of it until the backward.
TEST_CASE("a program that needs more room than most has it") {
  const Model model = small_gpt();
  Plan plan = plan_of(model, generated("gpipe", 2, 100), 4, Method::Sync);
  const int layers = model.num_layers();
  for (Stage& stage : plan.stages) stage.forward = stage.backward = {};
  for (int l = 0; l < layers; ++l) {
    plan.stages[l < layers - 3 ? 0 : 1].forward.push_back(LayerId(l));
    plan.stages[l < 2 ? 0 : 1].backward.push_back(LayerId(l));
  }
  const Program program = lower(plan, profile_of(model, 4)).value();
  Room room(program);
  std::vector<int> all;
  for (std::size_t t = 0; t < program.transfers.size(); ++t)
    all.push_back(room.of(TransferId(t)));
  CHECK(*std::max_element(all.begin(), all.end()) > Room::kLeast);
  CHECK(gets_by_with(all, program, 10));
  CHECK(!gets_by_with(std::vector<int>(all.size(), Room::kLeast), program, 1));
}

}  // namespace
}  // namespace pipewright
