// What becomes of steps that are not finite, by a request's NotFinitePolicy:
// which are run again, which are skipped, and when training ends. Nothing is
// run or said here.

#pragma once

#include <cstdint>
#include <string>

#include "pipewright/runtime/training/train_request.h"

namespace pipewright {

class NotFiniteSteps {
 public:
  explicit NotFiniteSteps(NotFinitePolicy policy) : policy_(policy) {}

  // Whether the step after so many is one that is run again: alone, so that the
  // bad one is known.
  bool is_repeated(std::int64_t done) const { return done < repeated_until_; }

  enum class Next {
    End,
    Repeat,  // from the step after those that are done
    Skip,    // that step
  };
  struct Verdict {
    Next next = Next::End;
    std::string why;  // added to what was wrong
  };
  // Some step after the first `done` and up to `end` was not finite; where
  // steps are repeated, it is the next one. Whoever calls does what the verdict
  // says. `can_go_back`: the state after `done` steps is there. `may_skip`:
  // there will be a trained step even if the next one is skipped.
  Verdict after(std::int64_t done, std::int64_t end, bool can_go_back,
                bool may_skip);

  // All is finite up to `done`: true if these are the steps that were repeated.
  bool ends_repetition(std::int64_t done);

 private:
  static constexpr int kMaxSkipped = 10;  // one after another

  NotFinitePolicy policy_;
  std::int64_t repeated_until_ = 0;  // steps up to this one are run again
  std::int64_t last_skipped_ = 0;
  int num_skipped_ = 0;  // up to that one, one after another
};

}  // namespace pipewright
