// Orders by list scheduling: every free worker starts the next ready action by
// a few rules.
//
// For zero_bubble.cc only. Takes O(n log p) for n actions on p workers. Which
// rules are best depends on the times, so the search tries several.

#pragma once

#include <vector>

#include "pipewright/schedules/zero_bubble_problem.h"

namespace pipewright::zb {

struct Policy {
  // Per worker: the largest number of activations between F and I. More overlap
  // longer transfers, fewer save memory for later.
  std::vector<int> ahead;
  // A W starts if it would end at most this share of its time after the next F
  // or I is ready; otherwise the worker waits.
  double weight_overlap = 0.5;
  // An F waits for an I that will be ready within this share of the F's time.
  double forward_wait = 0;
  // If both F and I are ready: always I, always F, or the one that was not
  // last.
  enum class First {
    Input,
    Forward,
    Other
  } first = First::Input;
  // If a ready F lacks memory, a W that frees memory goes before I.
  bool free_memory_first = false;
};

Order greedy_order(const Problem& problem, const Policy& policy);

}  // namespace pipewright::zb
