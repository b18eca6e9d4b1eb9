// Shared by all pictures of a timeline: spans to draw, and the unit of time.

#pragma once

#include <cstdint>
#include <vector>

#include "pipewright/timeline/timeline.h"

namespace pipewright {

// The compute and step spans of a worker, by start. Joined actions run at the
// same time; here each gets an equal part of it, in order.
std::vector<Span> own_spans(const Timeline& timeline, std::size_t worker);

// The largest unit of time such that every start and end is a multiple, if it
// is the shortest action or a simple fraction of it; otherwise 0. With this
// unit, equal actions are drawn equally wide.
Seconds natural_unit(const Timeline& timeline);

// "F", "B", "I", "W", "R", "S"
char letter(ActionKind kind);

}  // namespace pipewright
