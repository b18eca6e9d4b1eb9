// Who waits for whom among workers that cannot go on: a deadlock, as errors
// tell it.

#pragma once

#include <algorithm>
#include <vector>

#include "pipewright/base/ids.h"

namespace pipewright {

// Each worker waits for the next one.
struct WaitChain {
  std::vector<WorkerId> workers;
  bool is_cycle = false;  // the last one waits for the first; else for nobody
};

// Follows `waits_for` from a worker that waits. Workers outside the cycle, if
// there is one, are left out. waits_for(worker) is none for one that does not
// wait.
template <class WaitsFor>
WaitChain wait_chain(WorkerId first, WaitsFor waits_for) {
  WaitChain chain;
  auto& workers = chain.workers;
  WorkerId worker = first, next = waits_for(worker);
  while (!next.is_none()) {
    workers.push_back(worker);
    const auto known = std::find(workers.begin(), workers.end(), next);
    if (known != workers.end()) {
      workers.erase(workers.begin(), known);
      chain.is_cycle = true;
      return chain;
    }
    worker = next;
    next = waits_for(worker);
  }
  return chain;
}

}  // namespace pipewright
