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

}  // namespace pipewright
