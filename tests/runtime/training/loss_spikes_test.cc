#include "pipewright/runtime/training/loss_spikes.h"

#include <doctest/doctest.h>

namespace pipewright {
namespace {

constexpr double kFirst = 2;  // the loss of the run's first step

LossSpikes after_steady_losses() {
  LossSpikes spikes;
  for (std::size_t i = 0; i < LossSpikes::kRecent; ++i)
    CHECK(!spikes.add(i % 2 ? 0.9 : 1.1, kFirst));
  return spikes;
}

TEST_CASE("a spike is reported once, until the loss is back") {
  LossSpikes spikes = after_steady_losses();
  CHECK(spikes.add(5.5, kFirst) == 5.5 / 1.1);
  CHECK(!spikes.add(6, kFirst));
  CHECK(!spikes.add(1, kFirst));
  CHECK(spikes.add(5.5, kFirst) == 5.5 / 1.1);
}

TEST_CASE("losses that are not above the first, or too early, are no spikes") {
  LossSpikes spikes = after_steady_losses();
  CHECK(!spikes.add(5.5, 5.5));
  LossSpikes early;
  for (std::size_t i = 0; i < LossSpikes::kRecent; ++i)
    CHECK(!early.add(i == 31 ? 100 : 1, kFirst));
  CHECK(early.add(100, kFirst) == 100.0);
}

// Losses of 0 would make anything infinitely many times as large.
TEST_CASE("a median of 0 has no spikes") {
  LossSpikes spikes;
  for (std::size_t i = 0; i < LossSpikes::kRecent; ++i) spikes.add(0, 0);
  CHECK(!spikes.add(1, 0));
}

TEST_CASE("only recent losses count") {
  LossSpikes spikes = after_steady_losses();
  for (std::size_t i = 0; i < LossSpikes::kRecent; ++i) spikes.add(0.1, kFirst);
  CHECK(spikes.add(2.5, kFirst) == 25.0);
}

}  // namespace
}  // namespace pipewright
