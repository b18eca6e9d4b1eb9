// What is worse than any number.

#pragma once

#include <limits>

namespace pipewright {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace pipewright
