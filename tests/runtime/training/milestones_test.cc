// Pieces of a run end at every checkpoint and evaluation.

#include "pipewright/runtime/training/milestones.h"

#include <doctest/doctest.h>

#include <set>
#include <vector>

namespace pipewright {
namespace {

struct Stops {
  std::vector<std::int64_t> checkpoints, evaluations;
  int pieces = 0;
};

Stops run(const Milestones& milestones, Seconds step) {
  Stops stops;
  std::int64_t done = 0, saved = 0, evaluated = 0;
  while (done < milestones.total) {
    const std::int64_t piece =
        milestones.piece(done, done == 0 ? std::nullopt : std::optional(step));
    REQUIRE(piece >= 1);
    REQUIRE(done + piece <= milestones.total);
    REQUIRE((milestones.outside == 0 || piece >= milestones.outside));
    done += piece;
    ++stops.pieces;
    if (milestones.passes_checkpoint(saved, done))
      stops.checkpoints.push_back(saved = done);
    if (milestones.passes_evaluation(evaluated, done))
      stops.evaluations.push_back(evaluated = done);
  }
  return stops;
}

TEST_CASE("a piece is long where much comes around it, but ends in time") {
  Milestones milestones;
  milestones.total = 1000;
  const Seconds step(0.1);
  CHECK(milestones.piece(0, step) == 4);
  CHECK(milestones.piece(0, step, Seconds(0.01)) == 4);
  CHECK(milestones.piece(0, step, Seconds(0.1)) == 20);
  CHECK(milestones.piece(0, Seconds(1), Seconds(100)) == 10);
}

TEST_CASE("checkpoints and evaluations come when they are due") {
  Milestones milestones;
  milestones.total = 100;
  milestones.checkpoint_every = 30;
  milestones.evaluates = true;
  milestones.samples = 50;
  milestones.minibatch = 12;  // an epoch ends in steps 5, 9, 13, 17, 21, 25
  for (const double seconds : {1e-9, 0.01, 0.2, 5.0}) {
    const Stops stops = run(milestones, Seconds(seconds));
    CHECK((stops.checkpoints == std::vector<std::int64_t>{30, 60, 90}));
    REQUIRE(stops.evaluations.size() == 24);
    for (std::size_t e = 0; e < 24; ++e)
      CHECK(stops.evaluations[e] ==
            static_cast<std::int64_t>((e + 1) * 50 + 11) / 12);
  }
  milestones.evaluate_every = 40;
  CHECK((run(milestones, Seconds(1)).evaluations ==
         std::vector<std::int64_t>{40, 80}));
  // A minibatch of several epochs evaluates once.
  milestones.evaluate_every = 0;
  milestones.samples = 5;
  CHECK(run(milestones, Seconds(1)).evaluations.size() == 100);
}

TEST_CASE("pieces are short in time, and long enough to fill and drain") {
  Milestones milestones;
  milestones.total = 1000;
  CHECK(run(milestones, Seconds(5)).pieces == 1000);
  CHECK(run(milestones, Seconds(1e-6)).pieces < 20);
  milestones.outside = 7;
  milestones.checkpoint_every = 3;  // shorter than it takes to fill and drain
  const Stops stops = run(milestones, Seconds(1));
  CHECK(stops.pieces <= 1000 / 7);
  CHECK(stops.checkpoints.size() == static_cast<std::size_t>(stops.pieces));
}

}  // namespace
}  // namespace pipewright
