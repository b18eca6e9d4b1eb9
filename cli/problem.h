// What `plan`, `compare` and `simulate` are asked: a model or a profile, a
// cluster, and sizes, from the command line to a Problem.

#pragma once

#include <functional>
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
// many more than there are devices.
std::vector<int> default_microbatches(int minibatch, int devices);

// While it lives, Ctrl-C does not end the program but makes every estimate
// fail, so that planners return the best they have; a second Ctrl-C ends it.
// Shows on stderr, if that is a terminal, what is being done after a second.
class Watch {
 public:
  Watch();
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  Estimator watched(Estimator estimator);
  void doing(std::string what) { what_ = std::move(what); }
  static bool was_interrupted();

 private:
  void show();

  std::string what_;
  std::int64_t estimates_ = 0;
  double started_ = 0, shown_ = 0;
  bool terminal_ = false;
};

double now_seconds();

}  // namespace pipewright::cli
