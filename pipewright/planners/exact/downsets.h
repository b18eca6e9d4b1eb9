// A graph to be cut into a chain of downsets, and what a part of it costs.
//
// A downset holds, with a node, all that must come before it. Parts are the
// differences of a growing chain of them; each sits on an accelerator or a CPU.
// Knows of no profile, no cluster and no file: exact_placement.h and
// exact_planner.cc write such problems.

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
  double size = 0;  // on an accelerator, wherever its part stands
  double kept = 0;  // and once more for each part before its own, and its own
};

// Something that several nodes touch (one makes it, the others use it): an
// accelerator that holds some but not all of the nodes pays the cost once.
struct ChainTensor {
  double cost = 0;
  std::vector<int> nodes;  // distinct
};

struct ChainProblem {
  int num_accelerators = 0;
  int num_cpus = 0;
  double limit = kNever;    // of size on an accelerator
  int most_kept = 1 << 30;  // `kept` counts at most so often
  std::vector<ChainNode> nodes;
  std::vector<std::pair<int, int>> order;  // (before, behind): a DAG
  std::vector<ChainTensor> tensors;
};

struct ChainPart {
  bool on_cpu = false;
  double load = 0;
  std::vector<int> nodes;  // ascending
};

// The load of a set of nodes, from scratch; kNever where the set may not be.
double accelerator_load(const ChainProblem& problem,
                        const std::vector<int>& nodes);
double cpu_load(const ChainProblem& problem, const std::vector<int>& nodes);
// The size of a set as the part with `before` accelerators before it.
double size_on(const ChainProblem& problem, const std::vector<int>& nodes,
               int before);
double load_of(const ChainProblem& problem, const ChainPart& part);

// Neighbours of every node, repeated edges once.
struct Neighbours {
  std::vector<std::vector<int>> before, behind;
};
Neighbours neighbours(const ChainProblem& problem);

// Topological orders that differ in which branch goes first. Each has all
// nodes; a graph with a cycle has none.
std::vector<std::vector<int>> topological_orders(const ChainProblem& problem);

// Groups of nodes on common cycles (each strongly connected component) of a
// directed graph, numbered in topological order.
std::vector<int> cycle_groups(int num_nodes,
                              const std::vector<std::pair<int, int>>& edges);

}  // namespace pipewright
