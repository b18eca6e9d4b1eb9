// A profile for people: what each layer costs on one device at one size.

#pragma once

#include <string>

#include "pipewright/profile/profile.h"

namespace pipewright {

// Bytes that stay for backward, each storage once, at the layer that made it.
std::vector<Bytes> kept_bytes(const Profile& profile,
                              const std::vector<LayerSizes>& sizes);

// Fails as times_at() and sizes_at() do.
Result<std::string> profile_table(const Profile& profile,
                                  const std::string& kind, int microbatch,
                                  int width = 100);

}  // namespace pipewright
