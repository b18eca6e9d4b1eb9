// Random single changes of a pipeline over groups of whole hosts: hosts, cuts,
// stages, which group holds a stage, how urgent it is, microbatch size. For
// host_stages.h. The same changes on every machine.

#pragma once

#include <cstddef>
#include <optional>
#include <random>
#include <vector>

#include "pipewright/planners/auto/host_costs.h"

namespace pipewright {

class HostChanges {
 public:
  // The microbatch sizes that may be tried; at least one.
  HostChanges(std::vector<int> microbatches, std::size_t max_stages)
      : microbatches_(std::move(microbatches)), max_stages_(max_stages) {}

  // Often of the group that ends the step. None if the change that was chosen
  // is impossible.
  std::optional<HostShape> next(const HostShape& shape, int last_group);
  // Also cuts and stages of any groups, and how urgent a stage is.
  std::optional<HostShape> next_of_all(const HostShape& shape, int last_group);
  // Only how urgent a stage is.
  HostShape next_order(const HostShape& shape);

 private:
  std::optional<HostShape> changed(const HostShape& shape, int last_group,
                                   std::size_t kinds);
  bool change(std::size_t which);
  bool move_hosts();
  bool move_cut();
  bool divide();
  bool join();
  bool move_stage();
  bool swap_groups();
  bool move_any_cut();
  void change_urgency();
  void drop_empty_groups(int last_group);
  std::size_t stage_of_subject();
  // Below `end`; a distribution of the standard library may differ between
  // machines.
  std::size_t number(std::size_t end) { return random_() % end; }

  const std::vector<int> microbatches_;
  const std::size_t max_stages_;
  std::mt19937 random_{1};
  HostShape shape_;
  std::size_t subject_ = 0;  // a group
};

}  // namespace pipewright
