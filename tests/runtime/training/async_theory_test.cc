// What PipeMare's theory says of a quadratic, found again with the weights that
// training uses: Lemma 1, the effect of discrepancy and its correction, and a
// drift that the correction must see through.
//
// B. Yang et al., "PipeMare: Asynchronous Pipeline Parallel DNN Training",
// MLSys 2021. The table's figures are ours: the recurrence on plain numbers,
// long enough that what grows slowly is seen to grow.

#include <c10/core/InferenceMode.h>
#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

#include "pipewright/runtime/weights/weight_history.h"

namespace pipewright {
namespace {

constexpr ParameterId kWeight(0);
constexpr int kGrid = 120;

struct Quadratic {
  int forward = 0, backward = 0;  // delays
  double discrepancy = 0;         // Delta; the curvature is 1
  double decay = -1;              // gamma; below 0: no correction
};

TrainingSettings plain_settings(double decay, double distance) {
  TrainingSettings settings;
  settings.optimizer = sgd({});
  settings.learning_rate = [](std::int64_t) { return 1.0; };
  settings.correction_decay = decay < 0 ? 0.5 : std::pow(decay, distance);
  return settings;
}

// All rates of the grid at once: elements of one parameter do not meet.
at::Tensor last_size(const Quadratic& q, const at::Tensor& rates) {
  const double distance = q.forward - q.backward;
  const bool corrected = q.decay >= 0;
  const TrainingSettings settings = plain_settings(q.decay, distance);
  const StepRule rule{0, corrected ? distance : 0};
  WeightHistory history({{kWeight, at::ones({kGrid}, at::kDouble)}});
  constexpr int kSteps = 3000;
  at::Tensor size = at::zeros({kGrid}, at::kDouble);
  for (int t = 0; t < kSteps; ++t) {
    const at::Tensor seen = history.read(kWeight, t - q.forward, 0);
    const at::Tensor back =
        history.read(kWeight, t - q.backward, corrected ? distance : 0);
    const at::Tensor gradient =
        seen.mul(1 + q.discrepancy).sub(back, q.discrepancy).mul(rates);
    history.step(settings, [&](ParameterId) { return rule; }, {gradient});
    if (t >= kSteps - 100)
      size = at::maximum(size, history.newest().at(kWeight).abs());
  }
  return size;
}

// The largest rate of the grid below which nothing grows.
double largest_stable(const Quadratic& q, double most) {
  const c10::InferenceMode guard;
  const at::Tensor rates = at::arange(1, kGrid + 1, at::kDouble) * most / kGrid;
  const at::Tensor size = last_size(q, rates);
  for (int i = 0; i < kGrid; ++i)
    if (!(size[i].item<double>() < 1))
      return i == 0 ? 0 : rates[i - 1].item<double>();
  return most;
}

double lemma_1(int delay) {
  return 2 * std::sin(std::numbers::pi / (4 * delay + 2));
}

TEST_CASE("the largest stable rate falls with the delay as Lemma 1 says") {
  for (const int delay : {1, 2, 5, 10, 20}) {
    CAPTURE(delay);
    const double limit = lemma_1(delay);
    CHECK(largest_stable({delay, delay, 0, -1}, limit * 1.25) ==
          doctest::Approx(limit).epsilon(0.03));
  }
}

TEST_CASE("discrepancy and its correction, as the table says") {
  struct Row {
    int forward, backward;
    double discrepancy, none, best, tenth, half, zero, limit;
  };
  for (const Row& row : std::vector<Row>{
           {10, 6, 5, 0.039, 0.113, 0.104, 0.067, 0.044, 0.150},
           {10, 0, 1, 0.059, 0.131, 0.139, 0.079, 0.095, 0.150},
           {10, 0, 5, 0.018, 0.098, 0.120, 0.029, 0.020, 0.150},
           {20, 0, 5, 0.009, 0.049, 0.060, 0.015, 0.010, 0.077},
           {10, 0, -5, 0.224, 0.059, 0.053, 0.104, 0.018, 0.150}}) {
    CAPTURE(row.forward);
    CAPTURE(row.backward);
    CAPTURE(row.discrepancy);
    const double d = row.forward - row.backward;
    const auto check = [&](double decay, double expected) {
      CAPTURE(decay);
      // The table has three digits: half of the last one is its own error.
      const double found = largest_stable(
          {row.forward, row.backward, row.discrepancy, decay}, expected * 1.25);
      CHECK(std::abs(found - expected) <= 0.03 * expected + 0.0005);
    };
    check(-1, row.none);
    check(1 - 2 / (d + 1), row.best);
    check(std::pow(0.1, 1 / d), row.tenth);
    check(std::pow(0.5, 1 / d), row.half);
    check(0, row.zero);
    CHECK(lemma_1(row.forward) == doctest::Approx(row.limit).epsilon(0.03));
  }
}

TEST_CASE("a linear drift is recovered by the correction") {
  const c10::InferenceMode guard;
  for (const double distance : {0.5, 1.0, 3.25, 13.0}) {
    CAPTURE(distance);
    TrainingSettings settings = plain_settings(-1, distance);
    settings.correction_decay = 0.135;
    const at::Tensor drift = at::arange(1, 6, at::kDouble);
    WeightHistory history({{kWeight, at::zeros({5}, at::kDouble)}});
    constexpr int kSteps = 400;
    for (int t = 0; t < kSteps; ++t)
      history.step(settings,
                   [&](ParameterId) {
                     return StepRule{0, distance};
                   },
                   {drift.neg()});
    const at::Tensor expected = drift * (kSteps - distance);
    CHECK(
        at::allclose(history.read(kWeight, kSteps, distance), expected, 1e-12));
  }
}

}  // namespace
}  // namespace pipewright
