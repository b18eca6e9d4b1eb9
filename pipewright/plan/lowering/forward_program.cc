#include "pipewright/plan/lowering/forward_program.h"

#include <algorithm>
#include <map>
#include <set>

#include "pipewright/plan/lowering/lifetimes.h"

namespace pipewright {
namespace {

class ForwardHalf {
 public:
  ForwardHalf(const Program& program, int num_microbatches)
      : whole_(program), half_(program), end_(num_microbatches) {
    half_.num_microbatches = num_microbatches;
    half_.minibatches_outside = 1;
    half_.read_sets.clear();
    half_.reductions.clear();
    half_.delays.assign(program.delays.size(), {});
  }

  Program run(const Profile& profile) {
    // Where minibatches overlap, the last one of interest ends early enough.
    const int minibatches =
        whole_.minibatches_outside +
        (end_ + whole_.num_microbatches - 1) / whole_.num_microbatches;
    for (std::size_t w = 0; w < whole_.workers.size(); ++w)
      set_worker(half_.workers[w], unrolled(whole_, WorkerId(w), minibatches));
    set_lifetimes(half_, profile, actions_);
    for (std::size_t w = 0; w < whole_.workers.size(); ++w)
      half_.workers[w].prologue = std::move(actions_[w]);
    return std::move(half_);
  }

 private:
  const ReadSet& reads(const Action& action) const {
    return whole_.reads(action);
  }

  bool carries_activations(TransferId id) const {
    return !whole_.transfers[id.index()].is_keyed_by_version();
  }

  // Transfers that some forward reads; all others are backward's.
  const std::set<TransferId>& read_forward() {
    if (!read_forward_.empty()) return read_forward_;
    for (const WorkerProgram& worker : whole_.workers)
      for (const auto* list :
           {&worker.prologue, &worker.body, &worker.epilogue})
        for (const Action& action : *list)
          if (action.kind == ActionKind::Forward)
            for (const TransferId id : reads(action).transfers)
              if (carries_activations(id)) read_forward_.insert(id);
    return read_forward_;
  }

  bool stays(const Action& action) {
    const MicrobatchId microbatch = action.microbatch;
    if (microbatch.value < 0 || microbatch.value >= end_) return false;
    if (action.kind == ActionKind::Forward) return true;
    const bool travels =
        action.kind == ActionKind::Send || action.kind == ActionKind::Receive;
    return travels && read_forward().count(action.transfer) > 0;
  }

  void set_worker(WorkerProgram& worker, const std::vector<Action>& actions) {
    std::set<WeightGroupId> groups;
    auto& kept = actions_.emplace_back();
    worker.body.clear();
    worker.epilogue.clear();
    for (Action action : actions) {
      if (!stays(action)) continue;
      action.joined = false;  // its other half may be a backward
      action.version = 0;
      if (action.kind == ActionKind::Forward) {
        for (const WeightRead& read : reads(action).weights)
          groups.insert(read.group);
        action.read_set = of_initial_weights(reads(action));
      }
      kept.push_back(action);
    }
    worker.held.clear();
    for (const WeightGroupId group : groups) worker.held.push_back({group, 1});
  }

  ReadSetId of_initial_weights(ReadSet set) {
    std::erase_if(set.transfers,
                  [&](TransferId id) { return !carries_activations(id); });
    for (WeightRead& read : set.weights) read.offset = 0;
    const auto [known, is_new] =
        read_sets_.try_emplace(set, ReadSetId(half_.read_sets.size()));
    if (is_new) half_.read_sets.push_back(std::move(set));
    return known->second;
  }

  const Program& whole_;
  Program half_;
  const std::int32_t end_;
  std::vector<std::vector<Action>> actions_;  // by worker
  std::set<TransferId> read_forward_;
  std::map<ReadSet, ReadSetId> read_sets_;
};

}  // namespace

Program forward_program(const Program& program, const Profile& profile,
                        int num_microbatches) {
  return ForwardHalf(program, num_microbatches).run(profile);
}

}  // namespace pipewright
