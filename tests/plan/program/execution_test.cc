// The definition of execution against an independent one, on thousands of
// random programs and in random orders; and what it says where workers stop.

#include "pipewright/plan/program/execution.h"

#include <doctest/doctest.h>

#include <random>

#include "pipewright/plan/program/deadlock.h"
#include "pipewright/plan/validation/validate.h"
#include "tests/plan/program/naive_execution.h"
#include "tests/plan/program/random_lowered.h"
#include "tests/simulate/random_programs.h"

namespace pipewright {
namespace {

struct Seen {
  int programs = 0, stopped = 0, waits = 0;
  int joined = 0, norms = 0, weights = 0;  // waits of these
};

void count_wait(const Program& program, const Action& action, Seen& seen) {
  ++seen.waits;
  seen.joined += action.joined;
  seen.norms += action.kind == ActionKind::Reduce;
  if (!is_compute(action.kind)) return;
  for (const TransferId id : program.reads(action).transfers)
    seen.weights += program.transfer(id).is_keyed_by_version();
}

// Both move at random; at every moment they agree on who can start.
void compare(const Program& program, int repetitions, std::mt19937& random,
             Seen& seen) {
  Messages messages;
  if (match_messages(program, repetitions, messages)) return;
  ExecutionState state(program, repetitions, std::move(messages));
  NaiveExecution naive(program, state.minibatches());
  for (;;) {
    std::vector<std::size_t> movable;
    for (std::size_t w = 0; w < naive.num_workers(); ++w) {
      const WorkerId worker(w);
      REQUIRE(state.is_at_end(worker) == naive.is_at_end(w));
      if (naive.is_at_end(w)) continue;
      REQUIRE(state.next(worker) == naive.next(w));
      const bool can_start = naive.can_start(w);
      REQUIRE(state.can_start(worker) == can_start);
      REQUIRE(state.missing(worker).has_value() != can_start);
      if (can_start)
        movable.push_back(w);
      else
        count_wait(program, naive.next(w), seen);
    }
    if (movable.empty()) break;
    const std::size_t w = movable[random() % movable.size()];
    state.perform(WorkerId(w));
    naive.perform(w);
  }
  ++seen.programs;
  seen.stopped += !state.is_finished();
  if (!state.is_finished())
    CHECK(deadlock(state).message.find(" waits for ") != std::string::npos);
}

TEST_CASE("lowered programs: the definition is the naive one") {
  RandomLowered lowered(3);
  std::mt19937 random(3);
  Seen seen;
  for (int i = 0; i < 1500; ++i) {
    CAPTURE(i);
    const Program program = lowered.make().program;
    const auto valid = validate(program);
    REQUIRE_MESSAGE(valid.ok(), (valid.ok() ? "" : valid.error().to_text()));
    compare(program, 1 + i % 2, random, seen);
  }
  CHECK(seen.programs == 1500);
  CHECK(seen.stopped == 0);
  CHECK(seen.joined > 500);
  CHECK(seen.norms > 500);
  CHECK(seen.weights > 500);
}

// Two actions of a worker swapped: many of these stop before the end.
TEST_CASE("changed programs: both stop at the same place") {
  RandomLowered lowered(5);
  std::mt19937 random(5);
  Seen seen;
  for (int i = 0; i < 2000; ++i) {
    CAPTURE(i);
    Program program = lowered.make().program;
    auto& body = program.workers[random() % program.workers.size()].body;
    if (body.empty()) continue;
    const std::size_t a = random() % body.size(), b = random() % body.size();
    if (body[a].joined || body[b].joined || (a > 0 && body[a - 1].joined) ||
        (b > 0 && body[b - 1].joined))
      continue;
    std::swap(body[a], body[b]);
    compare(program, 1, random, seen);
  }
  CHECK(seen.programs > 500);
  CHECK(seen.stopped > 200);
}

TEST_CASE("programs that no plan makes") {
  std::mt19937 random(7);
  Seen seen;
  for (unsigned seed = 1; seed <= 1500; ++seed) {
    CAPTURE(seed);
    const Program program =
        test::RandomPrograms(seed).make({.chained = seed % 2 == 0}).program;
    compare(program, static_cast<int>(seed % 4), random, seen);
  }
  CHECK(seen.programs == 1500);
  CHECK(seen.joined > 500);
  CHECK(seen.norms > 500);
  CHECK(seen.weights > 500);
}

Program two_workers() {
  ScheduleRequest request;
  request.workers = 2;
  request.microbatches = 2;
  return lower(plan_of_schedule(*generate_schedule("1f1b", request),
                                Method::Sync, Replication::Split),
               chain(2))
      .value();
}

std::vector<Action>::iterator find(std::vector<Action>& list, ActionKind kind,
                                   std::int32_t microbatch) {
  return std::find_if(list.begin(), list.end(), [&](const Action& action) {
    return action.kind == kind && action.microbatch.value == microbatch;
  });
}

TEST_CASE("a deadlock is told worker by worker") {
  Program program = two_workers();
  auto& first = program.workers[0].body;
  // Microbatch 1 goes forward after the backward of microbatch 0, for which
  // worker 1 waits with its own forward of microbatch 1.
  auto& second = program.workers[1].body;
  const auto moved = find(first, ActionKind::Forward, 1);
  const std::vector<Action> both = {*moved, *(moved + 1)};
  REQUIRE(both[1].kind == ActionKind::Send);
  first.erase(moved, moved + 2);
  first.insert(find(first, ActionKind::Backward, 0) + 1, both.begin(),
               both.end());
  const Action forward = *find(second, ActionKind::Forward, 1);
  second.erase(find(second, ActionKind::Forward, 1));
  second.insert(find(second, ActionKind::Backward, 0), forward);
  const auto valid = validate(program);
  REQUIRE(!valid.ok());
  const std::string text = valid.error().to_text();
  INFO(text);
  CHECK(text.find("deadlock:\n  worker 0 at 0B0 v0 waits for transfer 1 of "
                  "microbatch 0 from worker 1\n  worker 1 at 1F1 v0 waits for "
                  "transfer 0 of microbatch 1 from worker 0\n") !=
        std::string::npos);
  CHECK(text.find("[0B0]") != std::string::npos);
  CHECK(text.find("[1F1]") != std::string::npos);
}

TEST_CASE("a joined action does not read what its partner makes") {
  Program program = two_workers();
  auto& body = program.workers[1].body;
  const auto forward = find(body, ActionKind::Forward, 0);
  REQUIRE((forward + 1)->kind == ActionKind::Backward);
  forward->joined = true;
  const auto valid = validate(program);
  REQUIRE(!valid.ok());
  const std::string text = valid.error().to_text();
  INFO(text);
  CHECK(text.find("it is joined with 1B0 v0, which reads a result that is not "
                  "there yet") != std::string::npos);
}

}  // namespace
}  // namespace pipewright
