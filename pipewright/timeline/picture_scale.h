// From seconds to columns or pixels, for every picture of a timeline.

#pragma once

#include <cstdint>
#include <vector>

#include "pipewright/timeline/timeline.h"

namespace pipewright {

// The compute and step spans of a worker, by start. Joined actions share a
// piece of time; here each gets its own part of it, in order.
std::vector<Span> own_spans(const Timeline& timeline, std::size_t worker);

// The largest unit of which every start and end is a whole multiple, if it is
// the shortest action or a small part of it; otherwise 0. With it, equal
// actions are drawn equally wide.
Seconds natural_unit(const Timeline& timeline);

// "F", "B", "I", "W", "R", "S"
char letter(ActionKind kind);

}  // namespace pipewright
