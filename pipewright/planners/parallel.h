// Work distributed over threads. Each call writes to its own place, so that the
// result is the same for any number of threads.

#pragma once

#include <cstddef>
#include <functional>

namespace pipewright {

// Calls work(0) ... work(count - 1), at most `threads` at once (0: one per
// core), and returns when all are done. Rethrows the exception of the call with
// the smallest index.
void in_parallel(std::size_t count, int threads,
                 const std::function<void(std::size_t)>& work);

}  // namespace pipewright
