#include "pipewright/plan/lowering/traffic.h"

#include <algorithm>
#include <cstdlib>

#include "pipewright/base/index.h"
#include "pipewright/base/interruption.h"

namespace pipewright {

// The lane under construction, and what each worker already has of it.
struct Traffic::Building {
  const Placement& placement;
  Lane lane;
  // Which transfers bring a value to a worker: needed again by a later stage on
  // the same worker, it is not sent again. Empty: the worker made it itself.
  std::map<std::pair<Value, WorkerId>, std::vector<TransferId>> present;
};

namespace {

void add_once(std::vector<TransferId>& list, TransferId id) {
  if (std::find(list.begin(), list.end(), id) == list.end()) list.push_back(id);
}

std::set<StageId>& local(StageTraffic& traffic, TransferKind kind) {
  if (kind == TransferKind::Activation) return traffic.forward_local;
  if (kind == TransferKind::Saved) return traffic.kept_local;
  return traffic.backward_local;
}

std::vector<TransferId>& needs(StageTraffic& traffic, TransferKind kind) {
  if (kind == TransferKind::Activation) return traffic.forward_needs;
  if (kind == TransferKind::Saved) return traffic.kept_needs;
  return traffic.backward_needs;
}

}  // namespace

Traffic::Traffic(const Plan& plan, const Profile& profile, const Homes& homes,
                 const std::vector<LayerSizes>& sizes)
    : plan_(plan), profile_(profile), homes_(homes), sizes_(sizes) {}

Bytes Traffic::bytes_of(const Value& value, SampleRange samples) const {
  const LayerSizes& size = sizes_[value.layer.index()];
  return share_of(
      value.kind == ValueKind::Private ? size.keeps_private : size.output,
      samples);
}

// A kernel may take another way for a few samples: what was measured near to
// them says more than a share of what the whole microbatch takes.
Bytes Traffic::workspace_of(LayerId layer, SampleRange samples) const {
  const int count = samples.end - samples.first;
  if (count == plan_.microbatch) return sizes_[layer.index()].workspace;
  int nearest = plan_.microbatch;
  Bytes workspace = sizes_[layer.index()].workspace;
  for (const auto& [measured, sizes] : profile_.sizes) {
    if (std::abs(measured - count) >= std::abs(nearest - count)) continue;
    nearest = measured;
    workspace = sizes[layer.index()].workspace;
  }
  return workspace * std::int64_t{count} / std::int64_t{nearest};
}

Bytes Traffic::carried_by(LayerId layer, SampleRange samples) const {
  return share_of(sizes_[layer.index()].carried, samples);
}

Bytes Traffic::share_of(Bytes microbatch, SampleRange samples) const {
  if (samples.end - samples.first == plan_.microbatch) return microbatch;
  return microbatch * std::int64_t{samples.end - samples.first} /
         std::int64_t{plan_.microbatch};
}

const Lane& Traffic::lane(const Placement& placement) {
  auto known = lanes_.find(placement);
  if (known != lanes_.end()) return known->second;
  const std::size_t first_new = transfers_.size();
  Building building{placement, {}, {}};
  for (std::size_t s = 0; s < placement.size(); ++s)
    for (WorkerId worker : placement[s]) building.lane[{StageId(s), worker}];
  add_activations(building);
  add_kept(building);
  add_remade(building);
  add_gradients(building);
  for (std::size_t t = first_new; t < transfers_.size(); ++t) {
    Transfer& transfer = transfers_[t];
    for (const Value& value : transfer.values)
      transfer.bytes +=
          bytes_of(value, {transfer.first_sample, transfer.end_sample});
  }
  return lanes_.emplace(placement, std::move(building.lane)).first->second;
}

TransferId Traffic::transfer_of(TransferKind kind, StageId from_stage,
                                WorkerId from, StageId to_stage, WorkerId to,
                                SampleRange samples) {
  auto [at, is_new] =
      known_.try_emplace({kind, from_stage, from, to_stage, to, samples},
                         TransferId(transfers_.size()));
  if (is_new) {
    Transfer transfer;
    transfer.from = from;
    transfer.to = to;
    transfer.made_by = from_stage;
    transfer.kind = kind;
    transfer.first_sample = samples.first;
    transfer.end_sample = samples.end;
    transfers_.push_back(transfer);
  }
  return at->second;
}

// What one of the stage's workers for this microbatch has of it.
SampleRange Traffic::samples_at(const Building& b, StageId stage,
                                int replica) const {
  if (b.placement[stage.index()].size() == 1) return {0, plan_.microbatch};
  return samples_of(plan_, plan_.stages[stage.index()], replica);
}

// Makes `value`, which stage `from` has, present wherever stage `to` runs.
void Traffic::move(Building& b, TransferKind kind, Value value, StageId from,
                   StageId to) {
  const auto& makers = b.placement[from.index()];
  const auto& users = b.placement[to.index()];
  const int num_makers = static_cast<int>(makers.size());
  const int num_users = static_cast<int>(users.size());
  for (int i = 0; i < num_users; ++i) {
    const WorkerId user = users[at(i)];
    StageTraffic& at_user = b.lane[{to, user}];
    auto [present, is_new] = b.present.try_emplace({value, user});
    // A gradient is a different sum at each stop, so it always moves on.
    const bool made_here =
        std::find(makers.begin(), makers.end(), user) != makers.end();
    if (made_here && from != to) local(at_user, kind).insert(from);
    if (!is_new && kind != TransferKind::Gradient) {
      for (TransferId id : present->second) add_once(needs(at_user, kind), id);
      continue;
    }
    present->second.clear();
    const SampleRange wanted = samples_at(b, to, i);
    for (int j = 0; j < num_makers; ++j) {
      const WorkerId maker = makers[at(j)];
      const SampleRange made = samples_at(b, from, j);
      const SampleRange both{std::max(wanted.first, made.first),
                             std::min(wanted.end, made.end)};
      if (both.empty() || maker == user) continue;
      const TransferId id = transfer_of(kind, from, maker, to, user, both);
      auto& values = transfers_[id.index()].values;
      if (std::find(values.begin(), values.end(), value) == values.end())
        values.push_back(value);
      add_once(needs(at_user, kind), id);
      StageTraffic& at_maker = b.lane[{from, maker}];
      add_once(kind == TransferKind::Gradient ? at_maker.backward_sends
                                              : at_maker.forward_sends,
               id);
      present->second.push_back(id);
    }
  }
}

void Traffic::add_activations(Building& b) {
  for (std::size_t l = 0; l < profile_.layers.size(); ++l) {
    if (l % 64 == 0) interruption_point();
    if (homes_.storage[l] != LayerId(l)) continue;  // a view makes nothing
    const StageId home = homes_.forward[l];
    for (WorkerId worker : b.placement[home.index()])
      b.present[{{ValueKind::Activation, LayerId(l)}, worker}];
  }
  for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
    std::set<LayerId> inputs;
    for (LayerId layer : plan_.stages[s].forward)
      for (LayerId input : profile_.layers[layer.index()].inputs)
        if (homes_.forward[input.index()] != StageId(s))
          inputs.insert(homes_.storage[input.index()]);
    for (LayerId input : inputs)
      move(b, TransferKind::Activation, {ValueKind::Activation, input},
           homes_.forward[input.index()], StageId(s));
  }
}

void Traffic::add_kept(Building& b) {
  for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
    const Stage& stage = plan_.stages[s];
    // What a layer's backward keeps comes from where its forward ran.
    for (LayerId layer : stage.backward) {
      const StageId home = homes_.forward[layer.index()];
      if (home == StageId(s)) continue;
      const Kept kept = kept_by({layer}, profile_, homes_, stage.recompute);
      for (LayerId storage : kept.activations) {
        // Inside a recomputed set it is made anew.
        if (stage.recompute &&
            std::binary_search(stage.backward.begin(), stage.backward.end(),
                               storage))
          continue;
        move(b, TransferKind::Saved, {ValueKind::Activation, storage}, home,
             StageId(s));
      }
      for (LayerId owner : kept.privates)
        if (sizes_[owner.index()].keeps_private > Bytes(0))
          move(b, TransferKind::Saved, {ValueKind::Private, owner}, home,
               StageId(s));
    }
  }
}

// Stages of a segment are alone on their workers, and have one each.
void Traffic::add_remade(Building& b) {
  for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
    if (!plan_.stages[s].continues) continue;
    const WorkerId user = b.placement[s].front();
    std::set<LayerId> inputs;
    for (LayerId layer : plan_.stages[s].forward)
      for (LayerId input : profile_.layers[layer.index()].inputs)
        inputs.insert(homes_.storage[input.index()]);
    for (LayerId input : inputs) {
      if (!is_remade_for(plan_, homes_, StageId(s), input)) continue;
      const StageId home = homes_.forward[input.index()];
      const WorkerId maker = b.placement[home.index()].front();
      const TransferId id =
          transfer_of(TransferKind::Saved, home, maker, StageId(s), user,
                      {0, plan_.microbatch});
      transfers_[id.index()].again = true;
      transfers_[id.index()].values.push_back({ValueKind::Activation, input});
      add_once(b.lane[{StageId(s), user}].kept_needs, id);
      add_once(b.lane[{home, maker}].again_sends, id);
    }
  }
}

void Traffic::add_gradients(Building& b) {
  for (std::size_t l = 0; l < profile_.layers.size(); ++l) {
    std::set<StageId> stops;
    for (LayerId user : homes_.users[l])
      stops.insert(homes_.backward[user.index()]);
    if (stops.empty()) continue;
    stops.insert(homes_.backward[l]);
    const Value value{ValueKind::Gradient, LayerId(l)};
    for (auto at = stops.rbegin(); std::next(at) != stops.rend(); ++at)
      move(b, TransferKind::Gradient, value, *at, *std::next(at));
  }
}

void add_local_reads(const StageTraffic& traffic, const ComputeAction& action,
                     bool recompute, std::vector<LocalRead>& reads) {
  const auto add = [&](const std::set<StageId>& stages, ActionKind kind) {
    for (StageId stage : stages) reads.push_back({stage, kind});
  };
  const bool backward = starts_backward(action.kind);
  const bool again = action.kind == ComputeKind::Recompute;
  if (action.kind == ComputeKind::Forward)
    add(traffic.forward_local, ActionKind::Forward);
  if (action.kind == ComputeKind::BackwardWeight)
    reads.push_back({action.stage, ActionKind::BackwardInput});
  if (again || backward)
    reads.push_back({action.stage, backward && recompute
                                       ? ActionKind::Recompute
                                       : ActionKind::Forward});
  if (again || (backward && !recompute))
    add(traffic.kept_local, ActionKind::Forward);
  if (backward) add(traffic.backward_local, ActionKind::Backward);
}

}  // namespace pipewright
