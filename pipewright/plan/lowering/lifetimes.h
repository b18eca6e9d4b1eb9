// How long a worker holds each value: which transfers an action is the first to
// read, and which values nobody reads after it. Written into the program once;
// the memory model sums it and the worker does it.
//
// A value belongs to one microbatch. So its life on a worker follows from the
// order of that worker's actions on that microbatch alone: a passage. A run of
// any length has few different passages, and each is analysed once.

#pragma once

#include <cstdint>
#include <vector>

#include "pipewright/base/ids.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/profile/profile.h"

namespace pipewright {

using PassageId = Id<struct PassageTag>;

// A microbatch's compute actions and sends on one worker, in their order.
struct Passage {
  WorkerId worker;
  std::vector<Action> actions;  // of the first microbatch that passes like this
};

struct Passages {
  std::vector<Passage> distinct;
  // Into `distinct`, by worker and microbatch of the run; none: the worker has
  // no action of the microbatch.
  std::vector<std::vector<PassageId>> of;
};

// Sets program.life_sets and the life set of each action. `actions` are those
// of a whole run, by worker, with absolute microbatches; the program has its
// operations, transfers and read sets. Of the profile only the graph is used.
Passages set_lifetimes(Program& program, const Profile& profile,
                       std::vector<std::vector<Action>>& actions);

}  // namespace pipewright
