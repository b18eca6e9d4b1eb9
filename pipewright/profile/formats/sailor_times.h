// Sailor's layer times:
//
//   {microbatch: {degree: {layer: [forward_s, backward_s, update_s]}}}

#pragma once

#include <map>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/profile/formats/importer.h"
#include "pipewright/profile/profile.h"

namespace pipewright {

// By microbatch, then layer. Backward is one number, as the input's.
using SailorTimes = std::map<int, std::vector<LayerTimes>>;

// At one degree of tensor parallelism, of a plan or asked for.
Result<SailorTimes> parse_sailor_times(const SourceFile& file, int degree,
                                       bool is_of_plan);

// The same kernels on fewer samples do not take longer: a layer's times at
// such a size were disturbed when they were measured, one after the other.
// They are taken as missing, as at a size below all that were measured: on
// the line through the next two sizes, at least in proportion to the next and
// at most the next (profile.cc). How many layers there were.
int lower_outliers(SailorTimes& times);

// Whether a layer's times at a size are exactly what lower_outliers() makes of
// the next two sizes, also in a profile from a file. Measured times are so by
// chance only, where the source has rounded them.
bool is_lowered(const SailorTimes& times, int size, std::size_t layer);

}  // namespace pipewright
