// Prepares microbatches on a thread of its own before workers ask for them:
// loading overlaps compute.
//
// Of each input it holds at most `ahead` microbatches after the latest one
// asked for, and `behind` before it, for slower workers. The caller prepares a
// microbatch that the loader does not hold, so results never depend on it.

#pragma once

#include <memory>

#include "pipewright/runtime/training/training.h"

namespace pipewright {

class Loader {
 public:
  // Calls `source` on its own thread, too. `first` is the next microbatch.
  Loader(MicrobatchSource source, int num_inputs, std::int64_t first, int ahead,
         int behind);
  ~Loader();  // ends the thread

  MicrobatchSource microbatches();  // must not outlive the loader

  // Requests so far whose microbatch was ready, and was not.
  struct Count {
    std::int64_t ready = 0, late = 0;
  };
  Count count() const;
  std::size_t max_held() const;  // microbatches of one input, so far

 private:
  class Thread;
  std::unique_ptr<Thread> thread_;
};

}  // namespace pipewright
