// Whether plain floats are all finite, for gradients.cc: at the pace at which
// memory is read, for every step asks.

#pragma once

#include <cstdint>

namespace pipewright {

bool all_finite(const float* numbers, std::int64_t count);

}  // namespace pipewright
