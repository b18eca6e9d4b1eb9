// auto's search: scores pipelines in parallel, each once, and improves the best
// of them by single changes.
//
// The search is limited by simulated actions, not by seconds, so that the
// result is the same on any machine and with any number of threads, unless the
// problem's time limit ends it early.

#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "pipewright/planners/auto/auto_costs.h"

namespace pipewright {

struct AutoPlan {
  std::optional<Pipeline> pipeline;  // none: see pipeline_of_plan()
  Planned planned;
  std::string origin;  // the planner whose plan it started as
};

// A plan as a pipeline. None if a stage's layers are not consecutive, or if
// stages share devices.
std::optional<Pipeline> pipeline_of_plan(const Plan& plan);

class AutoSearch {
 public:
  explicit AutoSearch(const AutoCosts& costs, double max_actions);

  // Scores the pipelines that were not tried before and keeps those that fit.
  void add(std::vector<Pipeline> pipelines, const std::string& origin);
  void add(AutoPlan plan);

  // Scores all of them, except those that cannot fit or keep a worker busy for
  // longer than the best step found. False if the limits did not allow all.
  bool search_all(std::vector<Pipeline> pipelines, const std::string& origin);

  // Tries the best few with every schedule.
  void reschedule(std::size_t max_count);
  // Changes each of the best few while that makes it faster.
  void improve(std::size_t max_count);

  bool is_empty() const { return found_.empty(); }
  const AutoPlan& best() const { return found_.front(); }
  std::int64_t num_scored() const { return num_scored_; }
  bool was_cut_short() const { return cut_short_; }

 private:
  using Key = std::tuple<int, std::string, int, Replication, std::vector<int>,
                         std::vector<DeviceId>>;
  static Key key_of(const Pipeline& pipeline);

  // Those not tried before that may fit and be faster than `known_step`, as
  // many as the limit on actions allows; in their order.
  std::vector<Pipeline> untried(std::vector<Pipeline> pipelines,
                                Seconds known_step);
  std::vector<std::optional<Planned>> score(std::vector<Pipeline>& pipelines);
  std::optional<AutoPlan> best_of(std::vector<Pipeline> pipelines,
                                  const AutoPlan& before);
  // The fastest first, but the best of each number of stages before any second
  // best: similar pipelines improve to similar results.
  std::vector<AutoPlan> best_few(std::size_t max_count) const;
  AutoPlan improved(AutoPlan plan);
  void sort_and_trim();

  const AutoCosts& costs_;
  const Problem& problem_;
  double actions_left_;
  std::vector<AutoPlan> found_;  // fastest first
  std::set<Key> tried_;
  std::int64_t num_scored_ = 0;
  bool cut_short_ = false;  // by the time limit
  bool exhausted_ = false;  // by the limit on actions
};

}  // namespace pipewright
