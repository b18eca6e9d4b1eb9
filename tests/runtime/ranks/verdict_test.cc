// Which rank has failed, from invented heartbeats and clocks.

#include "pipewright/runtime/ranks/verdict.h"

#include <doctest/doctest.h>

namespace pipewright {
namespace {

Limits short_limits() {
  Limits limits;
  limits.set_up = Seconds(30);
  limits.checkpoint = Seconds(100);
  limits.least = Seconds(5);
  return limits;
}

RankView view(Phase phase, double heard, double changed,
              double longest_step = 0.2) {
  RankView rank;
  rank.last.phase = phase;
  rank.last.place = {WorkerId(1), StageId(1), ActionKind::Backward, 5, 3};
  rank.last.longest_step = Seconds(longest_step);
  rank.heard = Seconds(heard);
  rank.changed = Seconds(changed);
  return rank;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::optional<Verdict> at_100(const std::vector<RankView>& ranks) {
  return verdict(ranks, short_limits(), Seconds(100));
}

TEST_CASE("none, while all make progress or wait for one that does") {
  CHECK(
      !at_100({view(Phase::Computes, 99.9, 99.8), view(Phase::Waits, 99.9, 1),
               view(Phase::Between, 99.9, 20), view(Phase::SetUp, 99.9, 90)}));
}

TEST_CASE("a closed connection is a lost rank, unless it has finished") {
  auto gone = view(Phase::Computes, 99.9, 99.9);
  gone.is_closed = true;
  const auto found = at_100({view(Phase::Waits, 99.9, 99), gone});
  REQUIRE(found);
  CHECK(found->rank == 1);
  CHECK(has(found->text,
            "was lost, last seen at step 5, stage 1, backward of "
            "microbatch 3"));
  gone.has_finished = true;
  CHECK(!at_100({view(Phase::Waits, 99.9, 99), gone}));
}

TEST_CASE("a rank that said why it ends, before others that are lost by that") {
  auto gone = view(Phase::Computes, 99.9, 99.9);
  gone.is_closed = true;
  auto full = view(Phase::Computes, 99.9, 99.9);
  full.why = Error{ErrorCode::OutOfMemory, "no memory left", "", "", {}};
  const auto found = at_100({view(Phase::Waits, 99.9, 99), gone, full});
  REQUIRE(found);
  CHECK(found->rank == 2);
  CHECK(found->text == "ended: no memory left");
  CHECK(found->code == ErrorCode::OutOfMemory);
}

TEST_CASE("silence counts from the limit on, and before waiting") {
  CHECK(
      !at_100({view(Phase::Waits, 99.9, 80), view(Phase::Computes, 95.1, 95)}));
  const auto found =
      at_100({view(Phase::Waits, 99.9, 80), view(Phase::Computes, 94.9, 94)});
  REQUIRE(found);
  CHECK(found->rank == 1);
  CHECK(has(found->text, "has been silent for 5.1 s (limit 5 s)"));
}

TEST_CASE("set-up excuses silence until a rank has done a step") {
  CHECK(!at_100(
      {view(Phase::Waits, 99.9, 80, 0), view(Phase::SetUp, 80, 80, 0)}));
  const auto found = at_100(
      {view(Phase::Waits, 99.9, 99.9), view(Phase::SetUp, 94.9, 94.9, 0)});
  REQUIRE(found);
  CHECK(found->rank == 1);
  CHECK(has(found->text,
            "has been silent for 5.1 s (limit 5 s), last seen during"));
}

TEST_CASE("a worker without progress is found though its rank beats") {
  const auto found =
      at_100({view(Phase::Waits, 99.9, 80), view(Phase::Between, 99.9, 80),
              view(Phase::Computes, 99.9, 80)});
  REQUIRE(found);
  CHECK(found->rank == 2);
  CHECK(has(found->text, "has made no progress for 20 s"));
}

TEST_CASE("the limit grows with the step that was measured") {
  CHECK(stall_limit(short_limits(), Seconds(0.1)) == Seconds(5));
  CHECK(stall_limit(short_limits(), Seconds(3)) == Seconds(30));
  CHECK(!at_100({view(Phase::Computes, 99.9, 75, 3)}));
  CHECK(at_100({view(Phase::Computes, 99.9, 69, 3)}));
  // Before the first step is over nothing is known but the limit of set-up.
  CHECK(!at_100({view(Phase::Computes, 99.9, 75, 0)}));
}

TEST_CASE("set-up and checkpoints have limits of their own") {
  CHECK(!at_100({view(Phase::SetUp, 80, 80, 0)}));
  CHECK(at_100({view(Phase::SetUp, 69, 69, 0)}));
  CHECK(!at_100({view(Phase::Between, 99.9, 10)}));
  CHECK(
      verdict({view(Phase::Between, 199.9, 10)}, short_limits(), Seconds(200)));
}

TEST_CASE("all wait for each other: reported after twice the limit") {
  CHECK(!at_100({view(Phase::Waits, 99.9, 91), view(Phase::Waits, 99.9, 91)}));
  CHECK(at_100({view(Phase::Waits, 99.9, 89), view(Phase::Waits, 99.9, 89)}));
}

}  // namespace
}  // namespace pipewright
