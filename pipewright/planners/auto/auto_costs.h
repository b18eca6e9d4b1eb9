// What auto needs to know to make pipelines: where to cut into so many stages,
// and how long each stage takes, at every microbatch size of a problem.

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
  // stage or link is as fast as can be. Of more than 200 layers only the
  // lightest cuts of 200 stretches are tried. False if there are too few
  // layers, or neighbours that cannot talk.
  bool set_ends(Pipeline& pipeline) const;

  // Sets what generators that look at times are told.
  void set_times(Pipeline& pipeline) const;

  // Seconds of a stage for one microbatch.
  double load(const Pipeline& pipeline, std::size_t stage) const;
  // Seconds that the busiest worker computes in a step: no simulation of the
  // pipeline is faster.
  double busiest(const Pipeline& pipeline) const;

 private:
  // Sums over the layers before, by kind, for one number of samples.
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
  std::map<int, std::vector<int>> positions_;  // to cut at; 0 and the end too
  std::map<int, Sums> sums_;  // of the largest parts that replicas can have
};

}  // namespace pipewright
