// BaPipe's exploration: which candidates are made, what each is worth, and the
// table that explains the choice (bapipe.cc names the paper).

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pipewright/planners/bapipe/bapipe_costs.h"
#include "pipewright/planners/pipeline.h"
#include "pipewright/planners/planner.h"

namespace pipewright {

struct SplitPartition;

// One candidate: a row of the table.
struct BaPipeCandidate {
  std::string schedule;   // "1F1B-SNO", "data-parallel"
  std::string partition;  // "inter-layer", "coarse, exact", ...
  int microbatch = 0;
  std::optional<Planned> planned;
  std::string refusal;         // why there is none
  bool fits = false;           // in the simulated memory
  bool link_limits = false;    // some cut's link is slower than its stage
  Bytes largest_memory;        // simulated
  std::string memory_verdict;  // "VCU118.0 needs 9 GB of 8 GB"
  Seconds split_promise;       // of a partition that splits layers
  Seconds split_step;          // the same, simulated; 0: could not be
};

class BaPipeExploration {
 public:
  BaPipeExploration(const Problem& problem, std::string planner)
      : problem_(problem), planner_(std::move(planner)) {}

  // Adds the candidates of a microbatch size. Fails if the profile has no times
  // for the cluster's devices.
  Result<void> explore(int microbatch);
  // The whole model on every device, each microbatch split among them.
  void try_data_parallelism(int microbatch);

  const std::vector<BaPipeCandidate>& candidates() const { return candidates_; }
  // The fastest that fits, with the table. Fails with BadConfiguration and what
  // the least hungry candidate needs.
  Result<Planned> best() const;

 private:
  using Orders = std::vector<std::vector<DeviceId>>;
  void explore_schedule(const BlockCosts& blocks, BaPipeSchedule schedule,
                        const Orders& orders);
  void try_coarser(const StageCosts& costs, const StageEnds& ends);
  void fine_tune_memory(const StageCosts& costs, const StageEnds& ends,
                        const Orders& orders, bool links);
  void note_split(const StageCosts& costs, const StageEnds& ends);
  Seconds simulated_split(const StageCosts& costs,
                          const SplitPartition& split) const;
  // The candidate's place in candidates(); an earlier one with the same stages
  // is not estimated again.
  std::size_t try_ends(const StageCosts& costs, const StageEnds& ends,
                       const std::string& partition);
  // Plans, estimates and judges.
  void complete(BaPipeCandidate& candidate, const Pipeline& pipeline) const;
  void judge_memory(BaPipeCandidate& candidate) const;
  bool is_better(const BaPipeCandidate& a, const BaPipeCandidate& b) const;
  std::string remark(const BaPipeCandidate& candidate,
                     const BaPipeCandidate& best) const;
  std::vector<std::string> table(const BaPipeCandidate& best) const;
  std::string why(const BaPipeCandidate& best) const;
  std::string split_text(const BaPipeCandidate& best) const;
  Error nothing_fits() const;

  const Problem& problem_;
  std::string planner_;
  std::vector<BaPipeCandidate> candidates_;
  // Of each candidate that is a pipeline, to find it again.
  struct Stages {
    BaPipeSchedule schedule;
    int microbatch;
    std::vector<DeviceId> devices;
    StageEnds ends;
    bool operator==(const Stages&) const = default;
  };
  std::vector<std::optional<Stages>> stages_;
  std::vector<std::string> remarks_;  // beside the table
};

}  // namespace pipewright
