// A graph to be cut into a chain of downsets, and what a part of it costs.
//
// A downset is a set of nodes that contains every node before each of its
// nodes. A chain is a growing sequence of downsets. A part is the difference of
// two neighbouring downsets of a chain; each part is placed on one accelerator
// or one CPU. Knows no profile, no cluster and no file: exact_profile.h and
// exact_placement.h make such problems.

#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace pipewright {

inline constexpr double kNever = std::numeric_limits<double>::infinity();

struct ChainNode {
  double accelerator = 0;  // time; kNever if it cannot run there
  double cpu = kNever;
  double size = 0;  // on an accelerator, in any part
  double kept = 0;  // further size, once per part up to and with its own
};

// A tensor that one node produces and others use. An accelerator that holds
// some but not all of these nodes pays the cost once.
struct ChainTensor {
  double cost = 0;
  std::vector<int> nodes;  // distinct
};

struct ChainProblem {
  int num_accelerators = 0;
  int num_cpus = 0;
  double limit = kNever;   // of size on an accelerator
  int max_kept = 1 << 30;  // `kept` counts at most so many times
  std::vector<ChainNode> nodes;
  std::vector<std::pair<int, int>> order;  // (before, after): a DAG
  std::vector<ChainTensor> tensors;
};

struct ChainPart {
  bool on_cpu = false;
  double load = 0;
  std::vector<int> nodes;  // ascending
};

// The load of a set of nodes; kNever if it cannot run there.
double accelerator_load(const ChainProblem& problem,
                        const std::vector<int>& nodes);
double cpu_load(const ChainProblem& problem, const std::vector<int>& nodes);
// The size of a part with `before` accelerators before it.
double size_on(const ChainProblem& problem, const std::vector<int>& nodes,
               int before);
double load_of(const ChainProblem& problem, const ChainPart& part);
double largest_load(const std::vector<ChainPart>& parts);
// Loads are compared up to this relative rounding of their sums.
inline constexpr double kLoadRounding = 1e-12;

// The neighbours of every node, each once.
struct Neighbours {
  std::vector<std::vector<int>> before, after;
};
Neighbours neighbours(const ChainProblem& problem);

// Several topological orders, which differ in the branch that goes first. Empty
// if the graph has a cycle.
std::vector<std::vector<int>> topological_orders(const ChainProblem& problem);

// The strongly connected component of every node of a directed graph, numbered
// in topological order.
std::vector<int> cycle_groups(int num_nodes,
                              const std::vector<std::pair<int, int>>& edges);

}  // namespace pipewright
