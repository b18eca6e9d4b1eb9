// auto's search: pipelines scored in parallel, each once, and the best of them
// improved by single changes.
//
// How much is searched is counted in simulated actions, not in seconds, so that
// the outcome is the same on any machine and with any number of threads, unless
// the problem's clock ends it early.

#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "pipewright/planners/auto/auto_costs.h"

namespace pipewright {

// A pipeline and what it was found to do; one that a planner made may be no
// pipeline of runs of layers.
struct AutoPlan {
  std::optional<Pipeline> pipeline;
  Planned planned;
  std::string origin;  // the planner it began as
};

// A plan as the pipeline it came from; none if its stages are not runs of
// layers, or share devices.
std::optional<Pipeline> pipeline_of_plan(const Plan& plan);

class AutoSearch {
 public:
  explicit AutoSearch(const AutoCosts& costs, double most_actions);

  // Scores the pipelines that were not tried before and keeps those that fit.
  void add(std::vector<Pipeline> pipelines, const std::string& origin);
  void add(AutoPlan plan);

  // Every one of them: simulated, or busy for longer than a step that was
  // found. False if not all could be.
  bool search_all(std::vector<Pipeline> pipelines, const std::string& origin);

  // The best few under every schedule.
  void reschedule(std::size_t most);
  // The best few, each changed for as long as that makes it faster.
  void improve(std::size_t most);

  bool is_empty() const { return found_.empty(); }
  const AutoPlan& best() const { return found_.front(); }
  std::int64_t num_scored() const { return num_scored_; }
  bool was_cut_short() const { return cut_short_; }

 private:
  using Key = std::tuple<int, std::string, int, Replication, std::vector<int>,
                         std::vector<DeviceId>>;
  static Key key_of(const Pipeline& pipeline);

  // Those not tried before, within what may be simulated, and not hopeless
  // against a step that is known; in their order.
  std::vector<Pipeline> fresh(std::vector<Pipeline> pipelines, Seconds known);
  std::vector<std::optional<Planned>> scored(std::vector<Pipeline>& pipelines);
  std::optional<AutoPlan> best_of(std::vector<Pipeline> pipelines,
                                  const AutoPlan& before);
  // Fastest first, but the best of each number of stages before any second:
  // what is alike ends alike.
  std::vector<AutoPlan> best_few(std::size_t most) const;
  AutoPlan improved(AutoPlan plan);
  void sort_and_trim();

  const AutoCosts& costs_;
  const Problem& problem_;
  double actions_left_;
  std::vector<AutoPlan> found_;  // fastest first
  std::set<Key> tried_;
  std::int64_t num_scored_ = 0;
  bool cut_short_ = false;  // by the clock
  bool exhausted_ = false;  // what may be simulated was
};

}  // namespace pipewright
