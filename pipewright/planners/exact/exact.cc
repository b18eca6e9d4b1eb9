#include "pipewright/planners/exact/exact.h"

#include <algorithm>

#include "pipewright/base/text.h"
#include "pipewright/planners/exact/exact_improve.h"
#include "pipewright/planners/exact/exact_orders.h"

namespace pipewright {
namespace {

// More than the load of any part.
double above_all_loads(const ChainProblem& problem) {
  double sum = 1;
  for (const ChainNode& node : problem.nodes) {
    if (node.accelerator < kNever) sum += node.accelerator;
    if (node.cpu < kNever) sum += node.cpu;
  }
  for (const ChainTensor& tensor : problem.tensors) sum += tensor.cost;
  return sum;
}

Error no_chain_fits(const ChainProblem& problem) {
  double size = 0, largest_size = 0;
  for (const ChainNode& node : problem.nodes) {
    size += node.size + node.kept;
    largest_size = std::max(largest_size, node.size + node.kept);
  }
  return bad_configuration(
      "no chain of parts fits " + std::to_string(problem.num_accelerators) +
          " accelerators of size " + to_text(problem.limit) + " and " +
          std::to_string(problem.num_cpus) + " CPUs: all nodes take " +
          to_text(size) + ", the largest " + to_text(largest_size),
      "use more devices, or larger ones");
}

// Runs rounds of the search. While no chain is known the target rises. Then the
// target is just below the best chain (which is often optimal), and after each
// success somewhat lower (the first chains are near the optimum), until a round
// just below the best chain proves that none is better.
void search_down(const ChainProblem& problem, ChainSearch& search,
                 ChainSolution& solution) {
  const double top = above_all_loads(problem);
  double rising = solution.lower_bound * 1.05;
  bool step_down = false;
  while (true) {
    const bool known = !solution.parts.empty();
    const double just_below = solution.load * (1 - kLoadRounding);
    double target = rising > 0 && rising < top ? rising : top;
    if (known)
      target = step_down ? 0.15 * solution.lower_bound + 0.85 * solution.load
                         : just_below;
    if (known && just_below <= solution.lower_bound) return;
    std::vector<ChainPart> found = search.below(target);
    if (search.is_exhausted()) return;
    if (!found.empty()) {
      improve(problem, found);
      solution.load = largest_load(found);
      solution.parts = std::move(found);
      step_down = !step_down;
      continue;
    }
    solution.lower_bound = std::max(solution.lower_bound, target);
    if (known ? !step_down : target == top) return;
    step_down = solution.load - solution.lower_bound > 1e-3 * solution.load;
    rising = solution.lower_bound * 1.5;
  }
}

}  // namespace

double work_bound(const ChainProblem& problem) {
  double work = 0, longest = 0, cpu_worth = 0;
  for (const ChainNode& node : problem.nodes) {
    longest = std::max(
        longest,
        std::min(problem.num_accelerators > 0 ? node.accelerator : kNever,
                 problem.num_cpus > 0 ? node.cpu : kNever));
    if (node.accelerator == kNever) continue;
    work += node.accelerator;
    if (node.cpu < kNever && node.accelerator > 0)
      cpu_worth = std::max(cpu_worth,
                           node.cpu > 0 ? node.accelerator / node.cpu : kNever);
  }
  const double power =
      problem.num_accelerators +
      (problem.num_cpus > 0 ? problem.num_cpus * cpu_worth : 0);
  return std::max(longest, power > 0 ? work / power : 0);
}

Result<ChainSolution> best_chain(const ChainProblem& problem,
                                 const ExactLimits& limits) {
  ChainSolution solution;
  if (problem.nodes.empty()) {
    solution.proven = true;
    return solution;
  }
  if (problem.nodes.size() > kMaxChainNodes)
    return bad_configuration("the graph has " +
                                 std::to_string(problem.nodes.size()) +
                                 " nodes, too many for the exact search",
                             "at most " + std::to_string(kMaxChainNodes));
  if (topological_orders(problem).empty())
    return bad_configuration("the order of the nodes has a cycle");
  solution.parts = best_of_orders(problem);
  improve(problem, solution.parts);
  const bool known = !solution.parts.empty();
  solution.load = known ? largest_load(solution.parts) : kNever;
  solution.lower_bound = work_bound(problem);
  ChainSearch search(problem, limits);
  search_down(problem, search, solution);
  solution.downsets = search.num_downsets();
  solution.proven = !search.is_exhausted();
  if (solution.parts.empty()) {
    if (solution.proven) return no_chain_fits(problem);
    return bad_configuration(
        "within " + with_thousands(limits.steps) +
            " steps the search found no chain and no proof that there is none",
        "use more devices, or larger ones");
  }
  if (solution.proven) solution.lower_bound = solution.load;
  return solution;
}

}  // namespace pipewright
