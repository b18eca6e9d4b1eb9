// The learning rate of each step k of a run. S is the rate asked for, W the
// steps of warm-up, T the steps of the whole run:
//
//   warm-up       S (k + 1) / W        while k < W; then
//   constant      S
//   step:N,F      S F^floor(k / N)
//   cosine[:L]    L + (S - L) (1 + cos(pi (k - W) / (T - W))) / 2
//   inverse-sqrt  S sqrt(max(W, 1) / max(k + 1, W))

#pragma once

#include <cstdint>
#include <string>

#include "pipewright/base/result.h"

namespace pipewright {

struct LearningRate {
  enum class Shape {
    Constant,
    Step,
    Cosine,
    InverseSqrt
  };
  Shape shape = Shape::Constant;
  double rate = 0.1;
  std::int64_t warm_up = 0;
  std::int64_t every = 1;  // Step
  double factor = 0.1;     // Step
  double lowest = 0;       // Cosine

  // The rate of step k of `total`.
  double at(std::int64_t step, std::int64_t total) const;
};

// `text` as in the table above. Fails with BadConfiguration.
Result<LearningRate> parse_learning_rate(const std::string& text, double rate,
                                         std::int64_t warm_up);

}  // namespace pipewright
