// Layer times that cannot be right because a larger microbatch takes less, and
// what takes their place.

#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "pipewright/profile/profile.h"

namespace pipewright {

// Of one kind of device, one row per layer.
using TimesBySize = std::map<int, std::vector<LayerTimes>>;

// The same kernels on fewer samples do not take longer: a layer's times at
// such a size were disturbed when they were measured, one after the other.
// They are taken as missing, as at a size below all that were measured: on
// the line through the next two sizes, at least in proportion to the next and
// at most the next (profile.cc). How many layers there were.
int lower_outliers(TimesBySize& times);

// Whether a layer's times at a size are exactly what lower_outliers() makes of
// the next two sizes, also in a profile from a file. Measured times are so by
// chance only, where the source has rounded them.
bool is_lowered(const TimesBySize& times, int size, std::size_t layer);

}  // namespace pipewright
