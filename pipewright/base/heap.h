// A setting of the C library's heap, for programs that allocate and free the
// same large objects thousands of times, as planners do. Only a main program
// should call it.

#pragma once

namespace pipewright {

// Keeps freed memory in the process instead of returning it to the system. The
// page faults of getting it back would take longer than most of a simulation.
void keep_freed_memory();

}  // namespace pipewright
