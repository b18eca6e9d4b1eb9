#include "pipewright/plan/lowering/flat_program.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "pipewright/base/check.h"
#include "pipewright/base/interruption.h"
#include "pipewright/plan/lowering/lifetimes.h"
#include "pipewright/plan/lowering/operations.h"
#include "pipewright/plan/lowering/receive_order.h"
#include "pipewright/plan/lowering/traffic.h"
#include "pipewright/plan/lowering/versions.h"
#include "pipewright/plan/lowering/weight_groups.h"
#include "pipewright/plan/lowering/worker_order.h"
#include "pipewright/plan/memory/memory_effects.h"

namespace pipewright {
namespace {

ActionKind action_kind(ComputeKind kind) {
  return static_cast<ActionKind>(static_cast<int>(kind));
}

class Lowering {
 public:
  Lowering(const Plan& plan, const Profile& profile, const Homes& homes,
           const std::vector<LayerSizes>& sizes, int minibatches,
           const LowerOptions& options)
      : plan_(plan),
        profile_(profile),
        homes_(homes),
        minibatches_(minibatches),
        options_(options),
        traffic_(plan, profile, homes, sizes),
        groups_(weight_groups_of(plan, profile, homes)),
        versions_(plan.method, {}, 1),
        workers_(worker_orders_of(plan, minibatches)) {
    set_lanes();
    Orders orders;
    for (const WorkerOrder& worker : workers_) orders.push_back(worker.order);
    versions_ = Versions(plan.method,
                         progress_of(orders, plan.num_stages(),
                                     plan.num_microbatches(), minibatches),
                         plan.num_microbatches());
  }

  FlatProgram run() {
    Program& program = flat_.program;
    program.num_stages = plan_.num_stages();
    program.num_microbatches = plan_.num_microbatches();
    program.microbatch = plan_.microbatch;
    program.weight_groups = groups_.groups;
    program.reductions = reductions_of(plan_, profile_, homes_);
    if (options_.global_norm)  // last, so that its Reduce comes last
      program.reductions.push_back(
          norm_of(plan_, profile_, homes_, program.reductions));
    for (Transfer& transfer : weight_transfers_of(plan_, groups_)) {
      weight_transfer_[{transfer.group, transfer.to}] =
          TransferId(program.transfers.size());
      program.transfers.push_back(std::move(transfer));
    }
    add_compute();
    add_steps();
    add_receives();
    assemble();
    set_operations(program, plan_);
    set_delays();
    const Passages passages = set_lifetimes(program, profile_, flat_.actions);
    set_memory_effects(program, {plan_, profile_, homes_, traffic_, lane_of_,
                                 passages, options_.shares_memory});
    set_held_weights(program, flat_.actions);
    return std::move(flat_);
  }

 private:
  void set_lanes();
  void add_compute();
  ReadSetId read_set(WorkerId worker, int k, std::int32_t version);
  ReadSetId intern(const ReadSet& set);
  void add_sends(WorkerId worker, int k);
  void add_steps();
  void add_step(WorkerId worker, StageId stage, int minibatch, int last);
  int first_reader(const WorkerOrder& worker, StageId stage, int after,
                   std::int32_t version) const;
  void add_receives();
  int first_read_of_weights(WorkerId worker, WeightGroupId group,
                            std::int32_t version) const;
  void assemble();
  void set_delays();

  const std::vector<WeightGroupId>& groups_read(ComputeKind kind,
                                                StageId stage) const {
    static const std::vector<WeightGroupId> kNone;
    if (kind == ComputeKind::BackwardWeight) return kNone;
    return kind == ComputeKind::Forward ? groups_.of_forward[stage.index()]
                                        : groups_.of_owner[stage.index()];
  }
  WorkerOrder& at(WorkerId worker) { return workers_[worker.index()]; }

  const Plan& plan_;
  const Profile& profile_;
  const Homes& homes_;
  int minibatches_;
  LowerOptions options_;
  Traffic traffic_;
  WeightGroups groups_;
  Versions versions_;

  std::vector<WorkerOrder> workers_;
  std::vector<const Lane*> lane_of_;  // per microbatch of the run
  // Transfers of weights: (group, reader) -> index; after the others.
  std::map<std::pair<WeightGroupId, WorkerId>, TransferId> weight_transfer_;
  std::map<ReadSet, ReadSetId> read_sets_;
  ReadSet read_;  // of the current action; one list, used again for each
  Channels channels_;
  FlatProgram flat_;
};

void Lowering::set_lanes() {
  std::vector<Placement> placements(minibatches_ * plan_.num_microbatches(),
                                    Placement(plan_.stages.size()));
  for (std::size_t w = 0; w < workers_.size(); ++w)
    for (const ComputeAction& action : workers_[w].order)
      if (action.kind == ComputeKind::Forward)
        placements[action.microbatch.index()][action.stage.index()].push_back(
            WorkerId(w));
  for (Placement& placement : placements) {
    for (std::size_t s = 0; s < placement.size(); ++s)
      if (placement[s].size() > 1) placement[s] = plan_.stages[s].workers;
    lane_of_.push_back(&traffic_.lane(placement));
  }
  flat_.program.transfers = traffic_.transfers();
}

void Lowering::add_compute() {
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    WorkerOrder& worker = workers_[w];
    for (int k = 0; k < worker.size(); ++k) {
      interruption_point();
      const ComputeAction& action = worker.compute(k);
      const auto& groups = groups_read(action.kind, action.stage);
      // A stage's own weights come first in the list of its groups.
      const std::int32_t version =
          groups.empty()
              ? flat_.program.minibatch_of(action.microbatch)
              : versions_.read(action.kind,
                               groups_.groups[groups.front().index()],
                               action.microbatch);
      worker.version.push_back(version);
      worker.read_set.push_back(read_set(WorkerId(w), k, version));
      add_sends(WorkerId(w), k);
    }
  }
}

ReadSetId Lowering::read_set(WorkerId worker, int k, std::int32_t version) {
  const ComputeAction& action = at(worker).compute(k);
  const Lane& lane = *lane_of_[action.microbatch.index()];
  const StageTraffic& traffic = lane.at({action.stage, worker});
  const bool recompute = plan_.stages[action.stage.index()].recompute;
  ReadSet& set = read_;
  set.transfers.clear(), set.weights.clear(), set.local.clear();
  const auto add = [&](const std::vector<TransferId>& needs) {
    set.transfers.insert(set.transfers.end(), needs.begin(), needs.end());
  };
  if (action.kind == ComputeKind::Forward) add(traffic.forward_needs);
  const bool backward = starts_backward(action.kind);
  if (backward) add(traffic.backward_needs);
  if (action.kind == ComputeKind::Recompute || (backward && !recompute))
    add(traffic.kept_needs);
  const int use = at(worker).first_of_pair(k);
  for (TransferId id : set.transfers)
    channels_.used(id, action.microbatch, use);
  add_local_reads(traffic, action, recompute, set.local);
  for (WeightGroupId g : groups_read(action.kind, action.stage)) {
    const std::int32_t read = versions_.read(
        action.kind, groups_.groups[g.index()], action.microbatch);
    set.weights.push_back({g, read - version});
    auto transfer = weight_transfer_.find({g, worker});
    if (action.kind == ComputeKind::Forward &&
        transfer != weight_transfer_.end())
      set.transfers.push_back(transfer->second);
  }
  return intern(set);
}

ReadSetId Lowering::intern(const ReadSet& set) {
  auto& sets = flat_.program.read_sets;
  auto [at, is_new] = read_sets_.try_emplace(set, ReadSetId(sets.size()));
  if (is_new) sets.push_back(set);
  return at->second;
}

void Lowering::add_sends(WorkerId worker, int k) {
  const ComputeAction& action = at(worker).compute(k);
  const Lane& lane = *lane_of_[action.microbatch.index()];
  const StageTraffic& traffic = lane.at({action.stage, worker});
  const auto send = [&](const std::vector<TransferId>& ids) {
    for (TransferId id : ids) {
      Action out;
      out.kind = ActionKind::Send;
      out.microbatch = action.microbatch;
      out.version = flat_.program.minibatch_of(action.microbatch);
      out.transfer = id;
      at(worker).after(k).sends.push_back(out);
      channels_.sent(flat_.program.transfers[id.index()], out);
    }
  };
  if (action.kind == ComputeKind::Forward) send(traffic.forward_sends);
  if (action.kind == ComputeKind::Recompute) send(traffic.again_sends);
  if (starts_backward(action.kind)) send(traffic.backward_sends);
}

// The first action after `after` that reads `version` of what `stage` owns.
int Lowering::first_reader(const WorkerOrder& worker, StageId stage, int after,
                           std::int32_t version) const {
  for (int k = after + 1; k < worker.size(); ++k) {
    const ComputeAction& action = worker.compute(k);
    for (WeightGroupId g : groups_read(action.kind, action.stage)) {
      const WeightGroup& group = groups_.groups[g.index()];
      if (group.owner == stage &&
          versions_.read(action.kind, group, action.microbatch) >= version)
        return k;
    }
  }
  return worker.size();
}

// A step follows its last gradient at once. One that waits for a reduction
// comes as late as it may, so that the worker has other work meanwhile.
void Lowering::add_step(WorkerId id, StageId stage, int minibatch, int last) {
  WorkerOrder& worker = at(id);
  const auto& reductions = flat_.program.reductions;
  Action step;
  step.kind = ActionKind::Step;
  step.stage = stage;
  step.microbatch = flat_.program.first_microbatch(minibatch);
  step.version = minibatch + 1;
  ReadSet set;
  for (std::size_t r = 0; r < reductions.size(); ++r) {
    const auto& stages = reductions[r].stages;
    if (std::find(stages.begin(), stages.end(), stage) != stages.end())
      set.reductions.push_back(ReductionId(r));
  }
  const bool waits = !set.reductions.empty();
  step.read_set = intern(set);
  Gap& gap =
      waits ? worker.before(first_reader(worker, stage, last, step.version))
            : worker.after(last);
  gap.steps.push_back(step);
  for (WeightGroupId g : groups_.of_owner[stage.index()])
    for (const auto& [key, transfer] : weight_transfer_) {
      const Transfer& t = flat_.program.transfers[transfer.index()];
      if (key.first != g || t.from != id) continue;
      Action send = step;
      send.kind = ActionKind::Send;
      send.stage = StageId();
      send.read_set = ReadSetId();
      send.transfer = transfer;
      gap.steps.push_back(send);
    }
}

void Lowering::add_steps() {
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    WorkerOrder& worker = workers_[w];
    // Where the last weight gradient of each (minibatch, stage) is.
    std::map<std::pair<int, StageId>, int> last;
    std::map<int, int> end;  // the last action of each minibatch
    for (int k = 0; k < worker.size(); ++k) {
      const ComputeAction& action = worker.compute(k);
      const int minibatch = flat_.program.minibatch_of(action.microbatch);
      end[minibatch] = k;
      if (action.kind == ComputeKind::Backward ||
          action.kind == ComputeKind::BackwardWeight)
        last[{minibatch, action.stage}] = k;
    }
    // Reductions: when all of this worker's stages in one are done.
    const auto& reductions = flat_.program.reductions;
    for (std::size_t r = 0; r < reductions.size(); ++r) {
      for (int t = 0; t < minibatches_; ++t) {
        int done = -1;
        StageId stage;
        for (StageId s : reductions[r].stages) {
          auto found = last.find({t, s});
          if (found == last.end() || found->second <= done) continue;
          done = found->second;
          stage = s;
        }
        if (done < 0) continue;
        // Its Reduce waits for sums, and the worker's other stages must not
        // wait with it: others may need them to contribute.
        if (reductions[r].is_norm) done = end[t];
        Action reduce;
        reduce.kind = ActionKind::Reduce;
        reduce.stage = stage;
        reduce.microbatch = flat_.program.first_microbatch(t);
        reduce.version = t + 1;
        reduce.reduction = ReductionId(r);
        worker.after(done).reduces.push_back(reduce);
      }
    }
    // In the order of their last gradients: sums follow each other, and a step
    // may be taken while those of later gradients are under way.
    std::vector<std::tuple<int, int, StageId>> steps;
    for (const auto& [key, k] : last)
      steps.push_back({key.first, k, key.second});
    std::sort(steps.begin(), steps.end());
    for (const auto& [minibatch, k, stage] : steps)
      add_step(WorkerId(w), stage, minibatch, k);
    for (const Gap& gap : worker.gaps)
      for (const Action& action : gap.steps)
        if (action.kind == ActionKind::Send)
          channels_.sent(flat_.program.transfer(action.transfer), action);
  }
}

int Lowering::first_read_of_weights(WorkerId worker, WeightGroupId group,
                                    std::int32_t version) const {
  const WorkerOrder& order = workers_[worker.index()];
  for (int k = 0; k < order.size(); ++k) {
    const ComputeAction& action = order.compute(k);
    if (action.kind != ComputeKind::Forward) continue;
    for (WeightGroupId g : groups_read(action.kind, action.stage))
      if (g == group && versions_.read(action.kind, groups_.groups[g.index()],
                                       action.microbatch) >= version)
        return k;
  }
  return order.size();
}

// New weights may land once the reader has turned to the version before them;
// other messages as channels_ decides.
void Lowering::add_receives() {
  for (const auto& [key, transfer] : weight_transfer_) {
    std::int32_t version = 1;
    for (int t = 0; t < minibatches_; ++t, ++version) {
      const int turned =
          first_read_of_weights(key.second, key.first, version - 1);
      const int size = at(key.second).size();
      channels_.land_after(transfer, version, std::min(turned, size - 1));
    }
  }
  for (const Channels::Post& post : channels_.posts(options_.window)) {
    WorkerOrder& worker = at(post.worker);
    Gap& gap = post.before_use ? worker.before(post.position)
                               : worker.after(post.position);
    gap.receives.push_back(post.action);
  }
}

void Lowering::assemble() {
  for (WorkerOrder& worker : workers_) {
    auto& actions = flat_.actions.emplace_back();
    auto& repetitions = flat_.repetitions.emplace_back();
    std::int32_t repetition =
        worker.repetition.empty() ? 0 : worker.repetition.front();
    for (std::size_t g = 0; g < worker.gaps.size(); ++g) {
      if (g > 0) {
        const std::size_t k = g - 1;
        const ComputeAction& compute = worker.order[k];
        repetition = worker.repetition[k];
        actions.push_back({action_kind(compute.kind), compute.joined,
                           compute.stage, compute.microbatch, worker.version[k],
                           worker.read_set[k]});
      }
      const Gap& gap = worker.gaps[g];
      for (const auto* list :
           {&gap.sends, &gap.receives, &gap.reduces, &gap.steps})
        actions.insert(actions.end(), list->begin(), list->end());
      repetitions.resize(actions.size(), repetition);
    }
  }
}

void Lowering::set_delays() {
  const int outside = plan_.schedule.sections().minibatches_outside;
  const int middle =
      std::min(minibatches_ - 1, outside + (minibatches_ - 1 - outside) / 2);
  for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
    const auto& owned = groups_.of_owner[s];
    flat_.program.delays.push_back(
        owned.empty() ? StageDelay{}
                      : versions_.delay(groups_.groups[owned[0].index()],
                                        std::max(0, middle)));
  }
}

}  // namespace

FlatProgram flat_program(const Plan& plan, const Profile& profile,
                         const Homes& homes,
                         const std::vector<LayerSizes>& sizes, int minibatches,
                         const LowerOptions& options) {
  return Lowering(plan, profile, homes, sizes, minibatches, options).run();
}

}  // namespace pipewright
