#include "pipewright/plan/validation/version_ledger.h"

#include <algorithm>

namespace pipewright {

VersionLedger::VersionLedger(const Program& program)
    : program_(program),
      newest_(program.workers.size() * program.weight_groups.size()),
      held_(newest_.size()),
      owned_(program.num_stages) {
  for (std::size_t w = 0; w < program.workers.size(); ++w)
    for (const HeldWeights& held : program.workers[w].held)
      held_[at(WorkerId(w), held.group)] = held.versions;
  for (std::size_t g = 0; g < program.weight_groups.size(); ++g)
    owned_[program.weight_groups[g].owner.index()].push_back(WeightGroupId(g));
}

std::optional<std::string> VersionLedger::read_fault(
    WorkerId worker, const Action& action) const {
  const ReadSet& set = program_.reads(action);
  for (const WeightRead& read : set.weights) {
    const std::int32_t version = std::max(0, action.version + read.offset);
    const std::size_t i = at(worker, read.group);
    if (version > newest_[i])
      return "it reads version " + std::to_string(version) +
             " of weights that are at version " + std::to_string(newest_[i]);
    if (version <= newest_[i] - held_[i])
      return "it reads version " + std::to_string(version) + ", but only " +
             std::to_string(held_[i]) + " up to version " +
             std::to_string(newest_[i]) + " are held";
  }
  return std::nullopt;
}

void VersionLedger::step(WorkerId worker, const Action& action) {
  for (WeightGroupId group : owned_[action.stage.index()])
    newest_[at(worker, group)] = action.version;
}

}  // namespace pipewright
