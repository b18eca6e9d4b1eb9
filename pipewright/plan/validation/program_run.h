// A program run without tensors and without a clock: does every action find
// what it reads, and do the workers get to the end? For validate.cc alone.

#pragma once

#include <optional>
#include <vector>

#include "pipewright/base/error.h"
#include "pipewright/plan/program/program.h"

namespace pipewright {

// What the run found out, beyond that it ended.
struct RunFacts {
  std::int64_t num_actions = 0;
  std::vector<int> peak_in_flight;  // per stage
};

// The first fault of a run with that many repetitions of the body, or nothing.
// Indices inside the actions have been checked.
std::optional<Error> run_fault(const Program& program, int repetitions,
                               RunFacts& facts);

}  // namespace pipewright
