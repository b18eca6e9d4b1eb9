// Which versions of which weights each worker has in the course of a run.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pipewright/plan/program/program.h"

namespace pipewright {

class VersionLedger {
 public:
  explicit VersionLedger(const Program& program);

  // Why an action cannot read the versions it names, or nothing.
  std::optional<std::string> read_fault(WorkerId worker,
                                        const Action& action) const;
  void step(WorkerId worker, const Action& action);
  void receive(WorkerId worker, WeightGroupId group, std::int32_t version) {
    newest_[at(worker, group)] = version;
  }
  std::int32_t newest(WorkerId worker, WeightGroupId group) const {
    return newest_[at(worker, group)];
  }

 private:
  std::size_t at(WorkerId worker, WeightGroupId group) const {
    return worker.index() * program_.weight_groups.size() + group.index();
  }

  const Program& program_;
  std::vector<std::int32_t> newest_, held_;        // per worker and group
  std::vector<std::vector<WeightGroupId>> owned_;  // groups by stage
};

}  // namespace pipewright
