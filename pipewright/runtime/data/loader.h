// Microbatches made ready before they are asked for, by a thread of their own:
// loading overlaps compute.
//
// Bounded: of each input it holds at most `ahead` microbatches beyond the
// furthest one asked for, and `behind` before it, for workers that lag. One
// that it does not hold is made by who asks, so an answer never depends on it.

#pragma once

#include <memory>

#include "pipewright/runtime/training/training.h"

namespace pipewright {

class Loader {
 public:
  // `source` is asked from the thread, too. `first` is asked for next.
  Loader(MicrobatchSource source, int num_inputs, std::int64_t first, int ahead,
         int behind);
  ~Loader();  // ends the thread

  MicrobatchSource microbatches();  // not after the loader is gone

  // Answers so far that were ready, and that were not.
  struct Count {
    std::int64_t ready = 0, late = 0;
  };
  Count count() const;
  std::size_t most_held() const;  // microbatches of one input, so far

 private:
  class Thread;
  std::unique_ptr<Thread> thread_;
};

}  // namespace pipewright
