// Which rank has failed: a pure function of the heartbeats and a clock.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pipewright/base/error.h"
#include "pipewright/base/units.h"
#include "pipewright/runtime/ranks/progress.h"

namespace pipewright {

struct Limits {
  Seconds set_up{120};      // until the first run
  Seconds checkpoint{600};  // between runs
  Seconds least{10};        // for anything else, or, if that is longer,
  double steps = 10;        // this many of the longest step so far
};

// How long a rank may be silent, or at one action, during a run.
Seconds stall_limit(const Limits& limits, Seconds longest_step);
// The same, which is longer before the first step has ended.
Seconds action_limit(const Limits& limits, Seconds longest_step);

// What is known of a rank. Times count from any start.
struct RankView {
  Snapshot last;
  Seconds heard;              // when the last heartbeat came
  Seconds changed;            // when its count last changed
  bool is_closed = false;     // its connection has ended ...
  bool has_finished = false;  // ... after it announced that
  std::optional<Error> why;   // ... or said what ended it
};

struct Verdict {
  int rank = -1;
  // "was lost, last seen at step 5, ...", without the rank.
  std::string text;
  ErrorCode code = ErrorCode::WorkerLost;
};

// None while every rank makes progress or waits for one that does. Checks for a
// rank that said why it ends first, then for one that is gone, then for a
// silent one, then for one that makes no progress, and last for ranks that all
// wait.
std::optional<Verdict> verdict(const std::vector<RankView>& ranks,
                               const Limits& limits, Seconds now);

}  // namespace pipewright
