// The planning problem of `plan` and `compare`: from command-line options (a
// model or a profile, a cluster, sizes) to a Problem.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "pipewright/planners/planner.h"
#include "pipewright/planners/tuned_replicas.h"

namespace pipewright::cli {

struct ProblemOptions {
  std::string model, profile, cluster;
  int minibatch = 0;              // 0: choose_minibatch() decides
  std::vector<int> microbatches;  // empty: default_microbatches()
  std::string optimizer = "momentum";
  std::string memory;   // "16GB"; empty: no limit but the device's
  int stages = 0;       // 0: the planner chooses
  std::string bucket =  // of gradients; "none": stage by stage
      std::to_string(kDefaultBucket.value() / 1'000'000) + "MB";
  std::string shares = "speed";  // of unequal replicas; or "equal"
  double budget = 5;             // seconds; for what, the command says
  int threads = 0;               // 0: one per core
};
// `budget_text` says what the budget is for.
void add_problem_options(CLI::App& command, ProblemOptions& options,
                         const std::string& budget_text =
                             "Time limit in seconds for each planner and "
                             "method");

// Sets both in the problem. Fails with Usage.
Result<void> set_replicas(Problem& problem, const ProblemOptions& options);

struct LoadedProblem {
  std::unique_ptr<const Profile> profile;
  std::unique_ptr<const Cluster> cluster;
  Problem problem;          // its estimator is the simulator
  std::string number_type;  // of an estimate; "": not known
};
Result<LoadedProblem> load_problem(const ProblemOptions& options);
// With this cluster instead of options.cluster.
Result<LoadedProblem> load_problem(const ProblemOptions& options,
                                   Cluster cluster);

// At most eight divisors of the minibatch, from one microbatch per minibatch to
// many more microbatches than devices. On many hosts, only those that divide
// evenly among the hosts.
std::vector<int> default_microbatches(int minibatch, const Cluster& cluster);

}  // namespace pipewright::cli
