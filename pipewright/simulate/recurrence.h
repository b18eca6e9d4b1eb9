// Finds out that an execution repeats itself.
//
// What happens from a moment on depends only on what is unfinished then: where
// each worker is, what is known of messages it may still read, what waits for
// or occupies which wire. If two moments agree in all of that, with times
// counted from the moment and microbatches from the repetition, then all that
// followed the first follows the second, and again, for ever. Agreement is
// equality, so times must be exact: whole multiples of TimedCode::tick.

#pragma once

#include <limits>
#include <vector>

#include "pipewright/simulate/engine_state.h"
#include "pipewright/simulate/ordered_wires.h"

namespace pipewright {

class Recurrence {
 public:
  // The moment in which all have done `repetition` repetitions. True if an
  // earlier one was equal. Keeps one earlier moment only, ever later ones, as
  // in Brent's search for cycles (BIT 20, 1980): found after at most three
  // times the repetitions that it takes to come about.
  bool sees(const TimedCode& code, const EngineState& engine,
            const OrderedWires& wires, int repetition);

  bool is_found() const { return found_; }
  double period() const { return period_; }  // seconds a repetition
  // The least by which a moment differed from the one kept, in any of its
  // times, for each repetition between them; infinite if none was like it in
  // all but times.
  double drift() const { return drift_; }

 private:
  bool found_ = false;
  double period_ = 0;
  double drift_ = std::numeric_limits<double>::infinity();
  std::vector<double> now_, kept_;
  double kept_at_ = 0;
  int kept_repetition_ = 0;
  int next_kept_ = 1;
};

}  // namespace pipewright
