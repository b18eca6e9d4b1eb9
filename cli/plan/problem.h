// What `plan`, `compare` and `simulate` are asked: a model or a profile, a
// cluster, and sizes, from the command line to a Problem.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "pipewright/planners/planner.h"

namespace pipewright::cli {

struct ProblemOptions {
  std::string model, profile, cluster;
  int minibatch = 0;
  std::vector<int> microbatches;  // empty: chosen
  std::string optimizer = "momentum";
  std::string memory;  // "16GB"; empty: the devices' own
  int stages = 0;      // 0: the planner's choice
  double budget = 5;   // seconds for each planner
  int threads = 0;     // 0: one per core
};
void add_problem_options(CLI::App& command, ProblemOptions& options);

// The profile file, or the analytic profile of a model on the cluster's kinds
// at every size that divides the minibatch (what replicas split lies between).
Result<Profile> load_profile(const std::string& file, const std::string& model,
                             const Cluster& cluster, int minibatch);

struct LoadedProblem {
  std::unique_ptr<const Profile> profile;
  std::unique_ptr<const Cluster> cluster;
  Problem problem;  // its estimator simulates
};
Result<LoadedProblem> load_problem(const ProblemOptions& options);

// Divisors of the minibatch, at most eight, from one microbatch a minibatch to
// many more than there are devices; of those, on many hosts, the ones that
// every host gets an equal part of.
std::vector<int> default_microbatches(int minibatch, const Cluster& cluster);

}  // namespace pipewright::cli
