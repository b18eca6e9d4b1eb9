#include "pipewright/profile/tiers.h"

namespace pipewright {

std::string on_chip_table(const std::string& kind) { return kind + "/on-chip"; }

bool fits_on_chip(const DeviceKind& kind, Bytes held) {
  return kind.on_chip_memory > Bytes(0) && held <= kind.on_chip_memory;
}

Result<std::vector<LayerTimes>> times_on(const Profile& profile,
                                         const DeviceKind& kind, int microbatch,
                                         Bytes held, Outside outside) {
  const std::string on_chip = on_chip_table(kind.name);
  const bool is_on_chip =
      fits_on_chip(kind, held) && profile.times.contains(on_chip);
  return times_at(profile, is_on_chip ? on_chip : kind.name, microbatch,
                  outside);
}

}  // namespace pipewright
