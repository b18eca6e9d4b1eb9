// A profile as a table: what each layer costs on one device kind at one
// microbatch size.

#pragma once

#include <string>

#include "pipewright/profile/profile.h"

namespace pipewright {

// Per layer, the bytes kept for backward, each storage once, at its owner.
std::vector<Bytes> kept_bytes(const Profile& profile,
                              const std::vector<LayerSizes>& sizes);

// Fails as times_at() and sizes_at() do.
Result<std::string> profile_table(const Profile& profile,
                                  const std::string& kind, int microbatch,
                                  int width = 100);

// How far interpolation may be off: each profiled size but the first and last,
// predicted from its two neighbours, against its own total of forward and
// backward. The gap between neighbours is then twice as wide as in use. Layers
// count where all three sizes are measured.
struct InterpolationError {
  int num_sizes = 0;  // left out, one at a time; 0: too few are profiled
  double median = 0;  // of the absolute relative error
  int num_derived =
      0;               // times of a layer that the importer derived from others
  double largest = 0;  // signed: above 0, interpolation is too slow
};
InterpolationError interpolation_error(const Profile& profile,
                                       const std::string& kind);
// In one line; empty where fewer than three sizes are profiled.
std::string interpolation_text(const Profile& profile, const std::string& kind);

}  // namespace pipewright
