// Which of the times that a program takes from a profile were not measured at
// its microbatch sizes, but follow from those at other sizes (times_at()). For
// people who judge a prediction.

#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "pipewright/profile/profile.h"

namespace pipewright {

// Microbatch sizes by kind of device.
using SizesByKind = std::map<std::string, std::set<int>>;

struct DerivedTimes {
  std::string kind;
  int microbatch = 0;
  // The measured sizes. One: the times are in proportion. Two: they are on the
  // line through both, between them or below.
  std::vector<int> from;

  bool operator==(const DerivedTimes&) const = default;
};

// By kind, then size. Empty for an estimate, which was never measured.
std::vector<DerivedTimes> derived_times(const Profile& profile,
                                        const SizesByKind& used);

// "times at microbatch 16 are in proportion to those measured at 32"; empty
// without any. Names the kinds where they differ.
std::string to_text(const std::vector<DerivedTimes>& derived);

}  // namespace pipewright
