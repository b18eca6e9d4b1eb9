// How good a model is on samples it has not learned from.

#pragma once

#include <cstdint>
#include <optional>

#include "pipewright/base/units.h"

namespace pipewright {

struct Evaluation {
  std::int64_t step = 0;  // done before it
  std::int64_t samples = 0;
  double loss = 0;                 // mean over samples
  std::optional<double> accuracy;  // share of targets hit; none without classes
  Seconds seconds;                 // it took
};

}  // namespace pipewright
