// Sgd against its definition, number by number in double.

#include <doctest/doctest.h>

#include "pipewright/runtime/optimizers/optimizer.h"
#include "pipewright/runtime/training/training.h"

namespace pipewright {
namespace {

TEST_CASE("momentum, decay and Nesterov follow the definition") {
  for (const double momentum : {0.0, 0.9})
    for (const double decay : {0.0, 0.01})
      for (const bool nesterov : {false, true}) {
        if (nesterov && momentum == 0) continue;
        const auto optimizer = sgd({momentum, decay, nesterov});
        at::Tensor weights = at::full({1}, 2.0, at::kDouble);
        Tensors state(static_cast<std::size_t>(optimizer->words()));
        for (at::Tensor& tensor : state) tensor = at::zeros({1}, at::kDouble);
        double w = 2, b = 0;
        for (int step = 0; step < 6; ++step) {
          const double rate = 0.1 / (step + 1), gradient = w * w - step;
          optimizer->update(weights, at::full({1}, gradient, at::kDouble),
                            state, rate, step);
          const double g = gradient + decay * w;
          b = momentum * b + g;
          w -= rate * (nesterov ? g + momentum * b : b);
          CHECK(weights.item<double>() == doctest::Approx(w).epsilon(1e-14));
          w = weights.item<double>();
        }
      }
}

TEST_CASE("a delayed stage starts slow and ends with the full rate") {
  TrainingSettings settings;
  settings.learning_rate = [](std::int64_t) { return 0.8; };
  CHECK(delayed_rate(settings, 0, 4) == 0.8);
  settings.rescheduling_steps = 10;
  CHECK(delayed_rate(settings, 0, 4) == doctest::Approx(0.2));
  CHECK(delayed_rate(settings, 5, 4) == doctest::Approx(0.4));
  CHECK(delayed_rate(settings, 10, 4) == 0.8);
  CHECK(delayed_rate(settings, 50, 4) == 0.8);
  CHECK(delayed_rate(settings, 0, 0.5) == 0.8);
}

}  // namespace
}  // namespace pipewright
