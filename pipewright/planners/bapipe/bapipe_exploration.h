// BaPipe's exploration: generates the candidates, scores them, and chooses one
// (bapipe.cc names the paper).

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pipewright/model/model.h"
#include "pipewright/planners/bapipe/bapipe_candidate.h"
#include "pipewright/planners/bapipe/bapipe_costs.h"
#include "pipewright/planners/pipeline.h"
#include "pipewright/planners/planner.h"
#include "pipewright/planners/planner_parts.h"

namespace pipewright {

class BaPipeExploration {
 public:
  BaPipeExploration(const Problem& problem, std::string planner,
                    BaPipeParts parts = {});

  // Adds the candidates of one microbatch size. Fails if the profile has no
  // times for the cluster's devices.
  Result<void> explore(int microbatch);
  // The whole model on every device, each microbatch split among them.
  void try_data_parallelism(int microbatch);

  const BaPipeCandidates& candidates() const { return candidates_; }
  // The fastest that fits, with the table. Fails with BadConfiguration, and
  // says what the candidate with the smallest memory needs.
  Result<Planned> best() const;

 private:
  using Orders = std::vector<std::vector<DeviceId>>;
  void explore_schedule(const BlockCosts& blocks, BaPipeSchedule schedule,
                        const Orders& orders);
  // Forbids the largest tensor at a cut, again and again, while that makes the
  // step faster.
  void try_coarser(const StageCosts& costs, const StageEnds& ends);
  void fit_memory(const StageCosts& costs, const StageEnds& ends,
                  const Orders& orders, bool links);
  // Plans the model with layers split over two devices, which is another model.
  void try_split(const StageCosts& costs, const StageEnds& ends);
  // Returns the candidate's index in candidates(). An earlier one with the same
  // stages is not estimated again.
  std::size_t try_ends(const StageCosts& costs, const StageEnds& ends,
                       const std::string& partition);
  // Plans and estimates the candidate.
  void complete(BaPipeCandidate& candidate, const Pipeline& pipeline,
                const Problem& problem) const;
  void check_memory(BaPipeCandidate& candidate) const;
  Error nothing_fits() const;

  const Problem& problem_;
  std::string planner_;
  BaPipeParts parts_;
  std::optional<Model> model_;   // if its layers may be split
  std::vector<bool> may_split_;  // per layer
  BaPipeCandidates candidates_;
  // Of each candidate; none for those that are no pipeline of whole layers.
  struct Stages {
    BaPipeSchedule schedule;
    int microbatch;
    std::vector<DeviceId> devices;
    StageEnds ends;
    bool operator==(const Stages&) const = default;
  };
  std::vector<std::optional<Stages>> stages_;
  std::vector<std::string> remarks_;  // below the table
};

}  // namespace pipewright
