// How the process keeps its memory. For main programs that make and throw away
// the same large things thousands of times, as planners do; libraries do not
// decide this.

#pragma once

namespace pipewright {

// What is freed stays with the process instead of going back to the system,
// which would hand it out again page by page: that takes a simulation longer
// than most of what it computes.
void keep_freed_memory();

}  // namespace pipewright
