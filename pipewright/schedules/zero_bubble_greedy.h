// Orders by list scheduling: every worker that is free takes, by a few fixed
// rules, the next thing that is ready.
//
// For zero_bubble.cc only. One run is linear in the actions but for a small
// heap; which rules are best depends on the times, so the search tries several.

#pragma once

#include <vector>

#include "pipewright/schedules/zero_bubble_problem.h"

namespace pipewright::zb {

struct Policy {
  // Per worker: the most activations whose I is still to come. More hide longer
  // ways, fewer keep memory for later.
  std::vector<int> ahead;
  // A W that would end at most this share of itself after the next F or I is
  // known to be there is started; otherwise the worker waits.
  double weight_patience = 0.5;
  // An F is held back for an I that will be there within this share of the F.
  double forward_patience = 0;
  // Where F and I are ready: always I, always F, or the one that was not last.
  enum class First {
    Input,
    Forward,
    Other
  } first = First::Input;
  // A W that makes room for an F that is ready comes before I.
  bool room_first = false;
};

Order greedy_order(const Problem& problem, const Policy& policy);

}  // namespace pipewright::zb
