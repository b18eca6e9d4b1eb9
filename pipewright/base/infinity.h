// Infinity, for searches for a minimum.

#pragma once

#include <limits>

namespace pipewright {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace pipewright
