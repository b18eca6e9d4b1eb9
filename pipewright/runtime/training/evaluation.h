// How good a model is on samples that it was not trained on.

#pragma once

#include <cstdint>
#include <optional>

#include "pipewright/base/units.h"

namespace pipewright {

struct Evaluation {
  std::int64_t step = 0;  // steps done before it
  std::int64_t samples = 0;
  double loss = 0;  // mean over samples
  std::optional<double>
      accuracy;     // share of correct targets; none without classes
  Seconds seconds;  // duration
};

}  // namespace pipewright
