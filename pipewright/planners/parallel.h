// Work shared out among threads. Each piece writes where no other does, so the
// outcome is the same for any number of threads.

#pragma once

#include <cstddef>
#include <functional>

namespace pipewright {

// Calls work(0) ... work(count - 1), at most `threads` at once (0: one per
// core), and returns when all are done. What a piece throws is thrown here, the
// first by index.
void in_parallel(std::size_t count, int threads,
                 const std::function<void(std::size_t)>& work);

}  // namespace pipewright
