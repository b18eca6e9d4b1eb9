// Where auto cuts a model into a given number of stages, and how long each
// stage takes, at every microbatch size of a problem. Does not simulate.

#pragma once

#include <map>
#include <string>
#include <vector>

#include "pipewright/planners/cost_table.h"
#include "pipewright/planners/pipeline.h"

namespace pipewright {

class AutoCosts {
 public:
  // Fails if the profile lacks times or sizes.
  static Result<AutoCosts> create(const Problem& problem);

  const Problem& problem() const { return *problem_; }

  // Sets the ends of the stages, whose devices are given, so that the slowest
  // stage or link is as fast as possible. Of more than 200 layers only the
  // lightest cut in each of 200 intervals is tried. False if there are too few
  // layers, or neighbouring stages have no link.
  bool set_ends(Pipeline& pipeline) const;

  // Sets the times for schedule generators that use them.
  void set_times(Pipeline& pipeline) const;

  // Seconds of a stage for one microbatch.
  double load(const Pipeline& pipeline, std::size_t stage) const;
  // Seconds that the busiest worker computes per step: a lower bound on the
  // simulated step.
  double busiest(const Pipeline& pipeline) const;

 private:
  // Prefix sums over the layers, by kind, for one number of samples.
  struct Sums {
    std::vector<std::vector<double>> forward, backward;
  };
  const CostTable& costs(int microbatch) const {
    return tables_.at(microbatch);
  }
  Result<void> add_slices(int microbatch);
  int slowest_kind(const PipelineStage& stage) const;

  const Problem* problem_ = nullptr;
  std::map<int, CostTable> tables_;
  std::map<int, std::vector<int>> positions_;  // to cut at, with 0 and the end
  std::map<int, Sums> sums_;  // by the samples that a replica can have
};

}  // namespace pipewright
