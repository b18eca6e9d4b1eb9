#include "cli/calibrate/left_out.h"

#include <algorithm>

namespace pipewright::cli {

std::size_t num_groups(const Places& places) {
  constexpr std::size_t kMaxGroups = 8;
  return std::min(places.size(), kMaxGroups);
}

Split split(const Places& places, std::size_t group) {
  Split parts;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const bool is_in = i % num_groups(places) == group;
    (is_in ? parts.group : parts.others).push_back(places[i]);
  }
  return parts;
}

bool is_clearly_lower(double error, double before) {
  return error <= before / 2;
}

}  // namespace pipewright::cli
