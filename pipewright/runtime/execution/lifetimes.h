// How long a worker holds a value: found out before a run by reading the
// worker's actions backwards, so that the run itself counts nothing.

#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/execution/network.h"

namespace pipewright {

// What an action of a worker does with values of its own microbatch.
struct ActionLife {
  std::vector<TransferId> takes;  // transfers it is the first to read
  std::vector<Value> frees;       // values nobody reads behind it
  auto operator<=>(const ActionLife&) const = default;
};

// What a layer's share of a compute action reads or makes.
std::vector<Value> touched_values(const Network& network, LayerId layer,
                                  ActionKind kind);

class Lifetimes {
 public:
  Lifetimes(const Network& network, const Program& program, WorkerId worker,
            const std::vector<Action>& actions);

  const ActionLife& of(std::size_t action) const {
    return lives_[static_cast<std::size_t>(index_[action])];
  }

 private:
  std::vector<ActionLife> lives_;    // the distinct ones
  std::vector<std::int32_t> index_;  // by action
};

}  // namespace pipewright
