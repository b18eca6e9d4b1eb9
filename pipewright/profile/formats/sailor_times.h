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

}  // namespace pipewright
