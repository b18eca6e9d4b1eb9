// The smallest largest load over chains of downsets, with a proof.
//
// The objective and the restriction to chains of downsets are those of
// Tarnawski, Phanishayee, Devanur, Mahajan, Nina Paravecino, "Efficient
// Algorithms for Device Placement of DNN Graph Operators", NeurIPS 2020. Their
// dynamic program visits every pair of nested downsets. The search here
// (exact_search.h) is ours; it visits only parts that can belong to a chain
// better than the best known.

#pragma once

#include <cstdint>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/planners/exact/downsets.h"
#include "pipewright/planners/exact/exact_search.h"

namespace pipewright {

struct ChainSolution {
  std::vector<ChainPart> parts;  // along the chain, none empty
  double load = 0;               // the largest of the parts
  bool proven = false;           // no chain has a smaller one
  double lower_bound = 0;        // no chain is below it; load where proven
  std::int64_t downsets = 0;     // visited, over all rounds
};

inline constexpr int kMaxChainNodes = 4096;

// Fails with BadConfiguration if no chain fits the devices (the message says
// what takes how much), if the order has a cycle, or if there are more nodes
// than kMaxChainNodes.
Result<ChainSolution> best_chain(const ChainProblem& problem,
                                 const ExactLimits& limits = {});

// A bound for any assignment of nodes to devices: each node on the faster
// device, and all work spread evenly over the devices.
double work_bound(const ChainProblem& problem);

}  // namespace pipewright
