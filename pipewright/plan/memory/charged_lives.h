// How long each worker pays for a value. Mostly as long as it holds it; but
// where workers are threads of one process, a value that both ends of a
// transfer keep is one tensor, which the worker that made it pays for.

#pragma once

#include <set>
#include <utility>
#include <vector>

#include "pipewright/plan/lowering/lifetimes.h"
#include "pipewright/plan/program/program.h"

namespace pipewright {

// Of a microbatch's passage through one worker.
struct ChargedLives {
  const Passage* passage = nullptr;
  std::vector<LifeSet> sets;  // one per action
  // What arrives here and the worker that made it pays for.
  std::set<std::pair<TransferId, Value>> at_maker;
};

// Of the workers that share the memory of one microbatch. Makers pay
//   - for what is sent to several workers, until their backward of it, and
//   - for what a reader's W reads, until their own W.
// Afterwards a value is in `at_maker` of each reader whose maker keeps it.
void charge_makers(const Program& program, std::vector<ChargedLives>& workers);

}  // namespace pipewright
