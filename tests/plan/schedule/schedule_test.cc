// Schedule: what create() accepts and refuses, and what it says; the text form;
// unrolling; replicas.

#include "pipewright/plan/schedule/schedule.h"

#include <doctest/doctest.h>

#include <random>

#include "pipewright/schedules/generator.h"
#include "tests/answer.h"

namespace pipewright {
namespace {

Result<Schedule> parsed(const std::string& text) {
  return Schedule::parse(text, "x.txt");
}

std::string complaint(const std::string& text) {
  const auto schedule = parsed(text);
  return schedule ? "accepted" : schedule.error().to_text();
}

const char* const k1F1B =
    "schedule v1 stages=2 microbatches=3\n"
    "0: 0F0 0F1 0B0 0F2 0B1 0B2\n"
    "1: 1F0 1B0 1F1 1B1 1F2 1B2\n";

// Two stages that never drain, two microbatches a minibatch.
const char* const kAsync =
    "schedule v1 stages=2 microbatches=2 minibatches_outside=1\n"
    "prologue\n"
    "0: 0F0\n"
    "1:\n"
    "body\n"
    "0: 0F1 0B0 0F2 0B1\n"
    "1: 1F0 1B0 1F1 1B1\n"
    "epilogue\n"
    "0: 0F1 0B0 0B1\n"
    "1: 1F0 1B0 1F1 1B1\n";

TEST_CASE("the text form reads back as it was") {
  for (const char* text : {k1F1B, kAsync,
                           "schedule v1 stages=1 microbatches=2\n"
                           "0: 0F0 0F1+0B0 0B1\n",
                           "schedule v1 stages=1 microbatches=1\n"
                           "0: 0F0 0R0 0I0 0W0\n"}) {
    const auto schedule = parsed(text);
    REQUIRE_MESSAGE(schedule.ok(), schedule.error().to_text());
    CHECK(schedule->to_text() == text);
  }
}

TEST_CASE("an asynchronous schedule unrolls to a run of any length") {
  const auto schedule = parsed(kAsync);
  REQUIRE(schedule.ok());
  CHECK(schedule->is_asynchronous());
  for (int minibatches = 1; minibatches < 5; ++minibatches) {
    const Orders run = schedule->unrolled(minibatches);
    const auto whole = Schedule::create(2, 2 * minibatches, run);
    CHECK_MESSAGE(whole.ok(), whole.error().to_text());
  }
  CHECK(schedule->unrolled(3)[0][7] ==
        ComputeAction{StageId(0), MicrobatchId(4), ComputeKind::Forward});
  CHECK(peak_in_flight(*schedule, WorkerId(0), StageId(0)) == 2);
  CHECK(peak_in_flight(*schedule, WorkerId(1), StageId(1)) == 1);
}

TEST_CASE("syntax errors say where") {
  CHECK(contains(complaint("schedule v1 stages=1 microbatches=1\n0: 0F0 0X0\n"),
                 "x.txt:2:8: \"0X0\" is not an action"));
  CHECK(contains(complaint("schedule v2 stages=1 microbatches=1\n"),
                 "x.txt:1:10"));
  CHECK(contains(complaint("schedule v1 stages=1 chunks=1\n"), "x.txt:1:22"));
  CHECK(contains(complaint("schedule v1 stages=1 microbatches=1\n1: 0F0\n"),
                 "x.txt:2:1: expected worker 0"));
  CHECK(contains(complaint(""), "empty"));
  CHECK(contains(complaint("schedule v1 stages=1 microbatches="), "x.txt:1"));
  CHECK(contains(complaint("schedule v1 stages=1 microbatches=1\nbody\nbody\n"),
                 "second section"));
}

TEST_CASE("orders that are no schedule are refused, with the grid") {
  const std::string one = "schedule v1 stages=1 microbatches=1\n0: ";
  CHECK(contains(complaint(one + "0B0 0F0"),
                 "action 0B0: its forward does not come before it\n"
                 "  0: [0B0] 0F0"));
  CHECK(contains(complaint(one + "0F0 0F0 0B0"), "already"));
  CHECK(contains(complaint(one + "0F0 1B0"), "stages are 0 to 0"));
  CHECK(contains(complaint(one + "0F0 0B1"), "microbatches are 0 to 0"));
  CHECK(contains(complaint(one + "0F0"), "0B0 is never run"));
  CHECK(contains(complaint(one + "0F0 0I0"), "0W0 is never run"));
  CHECK(contains(complaint(one + "0F0 0W0 0I0"), "input gradient"));
  CHECK(contains(complaint(one + "0F0 0B0 0R0"), "its backward comes before"));
  CHECK(contains(complaint(one + "0F0 0B0 0I0"), "either B or I and W"));
  CHECK(contains(complaint(one + "0F0 0B0+"), "is not an action"));
  CHECK(contains(complaint(one + "0F0+0B0"), "deadlock"));
  CHECK(contains(complaint("schedule v1 stages=1 microbatches=3\n"
                           "0: 0F0 0F1+0F2+0B0 0B1 0B2"),
                 "only two actions"));
}

TEST_CASE("a deadlock is told worker by worker") {
  const std::string text = complaint(
      "schedule v1 stages=2 microbatches=2\n"
      "0: 0F0 0B0 0F1 0B1\n"
      "1: 1F0 1F1 1B0 1B1\n");
  CHECK(contains(text,
                 "worker 0 at 0B0 waits for the backward of stage 1, "
                 "microbatch 0; worker 1 at 1F1 waits for the forward of "
                 "stage 0, microbatch 1"));
  CHECK(contains(text, "0: 0F0 [0B0] 0F1"));
  CHECK(contains(text, "1: 1F0 [1F1] 1B0"));
}

TEST_CASE("replicas run an action one by one or all of them") {
  const std::string head = "schedule v1 stages=1 microbatches=2\n";
  CHECK(parsed(head + "0: 0F0 0B0\n1: 0F1 0B1\n").ok());
  CHECK(parsed(head + "0: 0F0 0B0 0F1 0B1\n1: 0F0 0F1 0B0 0B1\n").ok());
  CHECK(contains(complaint(head + "0: 0F0 0B0 0F1 0B1\n1: 0F0 0B0\n"),
                 "by 1 of the stage's 2 workers"));
  CHECK(contains(complaint(head + "0: 0F0 0B0 0F1\n1: 0F0 0B0 0B1\n"),
                 "its forward does not come before it"));
}

TEST_CASE("sections that do not repeat are refused") {
  std::string text = kAsync;
  const auto edited = [&](const std::string& from, const std::string& to) {
    std::string result = text;
    result.replace(result.find(from), from.size(), to);
    return complaint(result);
  };
  CHECK(edited("0F1 0B0 0F2", "0F1 0B0 0F2") == "accepted");
  // The body takes microbatch 0 of its own minibatch, which the prologue did.
  CHECK(contains(edited("0F1 0B0 0F2", "0F1 0B0 0F0"), "run twice"));
  CHECK(contains(edited("0: 0F0\n", "0:\n"), "its forward does not"));
  // The second stage ahead of the first.
  CHECK(contains(complaint("schedule v1 stages=2 microbatches=1 "
                           "minibatches_outside=1\n"
                           "prologue\n0:\n1: 1F0\n"
                           "body\n0: 0F0 0B0\n1: 1F1 1B0\n"
                           "epilogue\n0: 0F0 0B0\n1: 1B0\n"),
                 "later repetition"));
}

TEST_CASE("replicas of a schedule") {
  ScheduleRequest request;
  request.workers = 3;
  request.microbatches = 5;
  const auto schedule = generate_schedule("1f1b", request);
  REQUIRE(schedule.ok());
  const auto split = with_replicas(*schedule, {2, 1, 3}, Replication::Split);
  REQUIRE(split.ok());
  CHECK(split->num_workers() == 6);
  CHECK(split->sections().body[1] == schedule->sections().body[0]);
  const auto turns = with_replicas(*schedule, {2, 1, 3}, Replication::Rotate);
  REQUIRE(turns.ok());
  CHECK(turns->sections().body[0].size() == 6);
  CHECK(turns->sections().body[1].size() == 4);
  CHECK_FALSE(with_replicas(*schedule, {2, 1}, Replication::Split).ok());
  CHECK_FALSE(with_replicas(*schedule, {2, 0, 1}, Replication::Split).ok());
}

// By definition rather than by the checker's way: try every interleaving.
bool can_finish(const Orders& orders, std::vector<std::size_t> at) {
  std::vector<std::vector<int>> done(2, std::vector<int>(64, 0));
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t w = 0; w < orders.size(); ++w) {
      if (at[w] == orders[w].size()) continue;
      const ComputeAction a = orders[w][at[w]];
      const bool forward = a.kind == ComputeKind::Forward;
      const int other = a.stage.value + (forward ? -1 : 1);
      const int m = a.microbatch.value, key = a.stage.value * 8 + m;
      const bool inner = other >= 0 && other < static_cast<int>(orders.size());
      if (inner && !done[!forward][other * 8 + m]) continue;
      if (!forward && !done[0][key]) return false;
      done[!forward][key] = 1;
      ++at[w];
      moved = true;
    }
  }
  for (std::size_t w = 0; w < orders.size(); ++w)
    if (at[w] != orders[w].size()) return false;
  return true;
}

TEST_CASE("random orders are accepted exactly if they can be run") {
  std::mt19937 random(7);
  int accepted = 0, refused = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    const int p = 1 + static_cast<int>(random() % 3);
    const int M = 1 + static_cast<int>(random() % 3);
    Orders orders;
    for (int s = 0; s < p; ++s) {
      std::vector<ComputeAction> order;
      for (MicrobatchId m(0); m.value < M; ++m) {
        order.push_back({StageId(s), m, ComputeKind::Forward});
        order.push_back({StageId(s), m, ComputeKind::Backward});
      }
      for (int swaps = static_cast<int>(random() % 4); swaps > 0; --swaps) {
        const std::size_t i = random() % (order.size() - 1);
        std::swap(order[i], order[i + 1]);
      }
      orders.push_back(order);
    }
    const bool expected = can_finish(
        orders, std::vector<std::size_t>(static_cast<std::size_t>(p), 0));
    CHECK(Schedule::create(p, M, orders).ok() == expected);
    ++(expected ? accepted : refused);
  }
  CHECK(accepted > 500);
  CHECK(refused > 500);
}

TEST_CASE("broken text is refused, never a crash") {
  std::mt19937 random(11);
  const std::string letters = "0123456789FBIWR+ :\n=vprologuebodyepi#";
  for (int trial = 0; trial < 3000; ++trial) {
    std::string text = trial % 2 ? kAsync : k1F1B;
    for (int edits = 1 + static_cast<int>(random() % 3); edits > 0; --edits) {
      const std::size_t at = random() % text.size();
      if (random() % 3 == 0)
        text.erase(at, 1 + random() % 4);
      else
        text[at] = letters[random() % letters.size()];
    }
    const auto schedule = parsed(text);
    if (schedule) CHECK(parsed(schedule->to_text()).ok());
  }
}

}  // namespace
}  // namespace pipewright
