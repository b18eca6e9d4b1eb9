// Work distributed over threads. Each call writes to its own place, so that the
// result is the same for any number of threads.

#pragma once

#include <cstddef>
#include <functional>

namespace pipewright {

// `threads`, or one per core if it is 0.
int num_threads(int threads);

// Calls work(0) ... work(count - 1), at most num_threads(threads) at once,
// and returns when all are done. Rethrows the exception of the call with
// the smallest index.
void in_parallel(std::size_t count, int threads,
                 const std::function<void(std::size_t)>& work);

}  // namespace pipewright
