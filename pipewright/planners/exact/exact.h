// The smallest largest load over chains of downsets, with a proof.
//
// The objective and the restriction to chains of downsets are those of
// Tarnawski, Phanishayee, Devanur, Mahajan, Nina Paravecino: "Efficient
// Algorithms for Device Placement of DNN Graph Operators", NeurIPS 2020. Their
// dynamic program looks at every pair of nested downsets; the search here
// (exact_search.h) is ours, and looks only at parts that can belong to a chain
// better than the best known.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/planners/exact/downsets.h"

namespace pipewright {

// Nothing is left unproven for want of effort on graphs such as people build;
// the cap only keeps an adversarial graph from running for ever.
struct ExactLimits {
  std::int64_t steps = 400'000'000;   // nodes put into or out of a part
  std::int64_t downsets = 2'000'000;  // kept at a time
  std::function<bool()> is_over;      // asked now and then; empty: never
};

struct ChainSolution {
  std::vector<ChainPart> parts;  // along the chain, none empty
  double load = 0;               // the largest of the parts
  bool proven = false;           // no chain has a smaller one
  double lower_bound = 0;        // no chain is below it; load where proven
  std::int64_t downsets = 0;     // looked at, over all rounds
  std::int64_t steps = 0;
};

// Loads are compared up to this relative rounding of their sums.
inline constexpr double kLoadRounding = 1e-12;
inline constexpr int kMostChainNodes = 4096;

// Fails with BadConfiguration if no chain fits the devices (what is in the way
// is said), the order has a cycle or there are more nodes than kMostChainNodes.
Result<ChainSolution> best_chain(const ChainProblem& problem,
                                 const ExactLimits& limits = {});

// The best chain whose downsets are the beginnings of one of the problem's
// topological orders: quick, and where the search starts. Empty if none fits.
std::vector<ChainPart> best_of_orders(const ChainProblem& problem);
// The same along one order, with a load below the given one.
std::vector<ChainPart> best_along(const ChainProblem& problem,
                                  const std::vector<int>& order, double below);
// A chain made better by moving single nodes between neighbouring parts, and
// by cutting its own order anew, until neither helps.
void improve(const ChainProblem& problem, std::vector<ChainPart>& parts);

// What holds for any assignment at all: each node on the faster device, and all
// the work spread evenly over what the devices can do.
double work_bound(const ChainProblem& problem);

double largest_load(const std::vector<ChainPart>& parts);

}  // namespace pipewright
