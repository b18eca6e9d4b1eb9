// Which rank has failed, from what is known of all: a pure function of beats
// and clocks, for the heartbeat.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pipewright/base/units.h"
#include "pipewright/runtime/ranks/progress.h"

namespace pipewright {

struct Limits {
  Seconds set_up{120};      // until the first run
  Seconds checkpoint{600};  // between runs
  Seconds least{10};        // for anything else, and ...
  double steps = 10;        // ... as many of the longest step so far
};

// How long a rank may be silent, or at one action, during a run.
Seconds stall_limit(const Limits& limits, Seconds longest_step);

// What is known of a rank. Times count from any start.
struct RankView {
  Snapshot last;
  Seconds heard;              // when the last beat came
  Seconds changed;            // when its count last moved on
  bool is_closed = false;     // its connection has ended ...
  bool has_finished = false;  // ... after it said so
};

struct Verdict {
  int rank = -1;
  // "was lost, last seen at step 5, ..."; who comes before it.
  std::string text;
};

// Nobody, as long as all do something or wait for someone who does. A rank that
// has gone comes before a silent one, a silent one before one that does not get
// on, and that before those that wait for it.
std::optional<Verdict> verdict(const std::vector<RankView>& ranks,
                               const Limits& limits, Seconds now);

}  // namespace pipewright
