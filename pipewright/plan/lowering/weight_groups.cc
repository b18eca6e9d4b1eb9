#include "pipewright/plan/lowering/weight_groups.h"

#include <algorithm>
#include <map>
#include <set>

namespace pipewright {

WeightGroups weight_groups_of(const Plan& plan, const Profile& profile,
                              const Homes& homes) {
  std::map<std::pair<StageId, StageId>, std::vector<LayerId>> by_homes;
  for (std::size_t l = 0; l < profile.layers.size(); ++l) {
    const bool split = homes.forward[l] != homes.backward[l];
    if (split && profile.parameter_bytes(LayerId(l)) == Bytes(0)) continue;
    by_homes[{homes.backward[l], homes.forward[l]}].push_back(LayerId(l));
  }
  WeightGroups result;
  result.of_forward.resize(plan.stages.size());
  result.of_owner.resize(plan.stages.size());
  for (const auto& [key, layers] : by_homes) {
    // Not a structured binding: clang 14 cannot capture one.
    const auto owner = key.first;
    const auto forward = key.second;
    std::set<ParameterId> parameters;
    WeightGroup group{forward, owner, layers, Bytes(0)};
    for (LayerId layer : layers)
      for (ParameterId id : profile.layers[layer.index()].parameters)
        if (parameters.insert(id).second)
          group.bytes += profile.parameters[id.index()].bytes;
    const WeightGroupId index(result.groups.size());
    const auto place = [&](std::vector<WeightGroupId>& list) {
      list.insert(owner == forward ? list.begin() : list.end(), index);
    };
    place(result.of_forward[forward.index()]);
    place(result.of_owner[owner.index()]);
    result.groups.push_back(std::move(group));
  }
  return result;
}

std::vector<Transfer> weight_transfers_of(const Plan& plan,
                                          const WeightGroups& groups) {
  std::vector<Transfer> transfers;
  for (std::size_t g = 0; g < groups.groups.size(); ++g) {
    const WeightGroup& group = groups.groups[g];
    const auto& owners = plan.stages[group.owner.index()].workers;
    std::size_t i = 0;
    for (WorkerId reader : plan.stages[group.forward_stage.index()].workers) {
      if (std::find(owners.begin(), owners.end(), reader) != owners.end())
        continue;
      Transfer transfer;
      transfer.from = owners[i++ % owners.size()];
      transfer.to = reader;
      transfer.made_by = group.owner;
      transfer.kind = TransferKind::Weights;
      transfer.group = WeightGroupId(g);
      for (LayerId layer : group.layers)
        transfer.values.push_back({ValueKind::Weights, layer});
      transfer.end_sample = plan.microbatch;
      transfer.bytes = group.bytes;
      transfers.push_back(std::move(transfer));
    }
  }
  return transfers;
}

std::vector<Reduction> reductions_of(const Plan& plan, const Profile& profile,
                                     const Homes& homes) {
  std::map<ParameterId, std::set<StageId>> users;
  for (std::size_t l = 0; l < profile.layers.size(); ++l)
    for (ParameterId id : profile.layers[l].parameters)
      users[id].insert(homes.backward[l]);
  std::map<std::set<StageId>, std::vector<ParameterId>> by_stages;
  for (const auto& [id, stages] : users) by_stages[stages].push_back(id);

  std::vector<Reduction> reductions;
  for (const auto& [stages, parameters] : by_stages) {
    Reduction reduction;
    for (StageId stage : stages) {
      reduction.stages.push_back(stage);
      for (WorkerId worker : plan.stages[stage.index()].workers)
        if (std::find(reduction.workers.begin(), reduction.workers.end(),
                      worker) == reduction.workers.end())
          reduction.workers.push_back(worker);
    }
    if (stages.size() == 1 && reduction.workers.size() == 1) continue;
    reduction.parameters = parameters;
    for (ParameterId id : parameters)
      reduction.bytes += profile.parameters[id.index()].bytes;
    reductions.push_back(std::move(reduction));
  }
  return reductions;
}

Reduction norm_of(const Plan& plan, const Profile& profile, const Homes& homes,
                  const std::vector<Reduction>& of_gradients) {
  constexpr std::int64_t kNumberBytes = 8;
  std::set<StageId> stages;
  std::set<WorkerId> workers;
  std::set<ParameterId> parameters;
  for (std::size_t l = 0; l < profile.layers.size(); ++l) {
    const auto& own = profile.layers[l].parameters;
    if (own.empty()) continue;
    parameters.insert(own.begin(), own.end());
    stages.insert(homes.backward[l]);
    const Stage& stage = plan.stages[homes.backward[l].index()];
    workers.insert(stage.workers.begin(), stage.workers.end());
  }
  Reduction norm;
  norm.is_norm = true;
  norm.stages.assign(stages.begin(), stages.end());
  norm.workers.assign(workers.begin(), workers.end());
  norm.parameters.assign(parameters.begin(), parameters.end());
  norm.bytes =
      Bytes(kNumberBytes * static_cast<std::int64_t>(parameters.size()));
  for (std::size_t r = 0; r < of_gradients.size(); ++r)
    norm.after.push_back(ReductionId(r));
  return norm;
}

namespace {

// What happens to one group on one worker, in program order.
struct Event {
  bool made;  // a new version, rather than a read
  std::int32_t version;
};

std::int32_t max_held(const std::vector<Event>& events) {
  std::int32_t held = 1;
  std::int32_t oldest_read = INT32_MAX;  // from here to the end
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    if (event->made)
      held = std::max(
          held, event->version - std::min(oldest_read, event->version) + 1);
    else
      oldest_read = std::min(oldest_read, event->version);
  }
  return held;
}

}  // namespace

void set_held_weights(Program& program,
                      const std::vector<std::vector<Action>>& actions) {
  for (std::size_t w = 0; w < actions.size(); ++w) {
    std::map<WeightGroupId, std::vector<Event>> events;
    for (const Action& action : actions[w]) {
      if (is_compute(action.kind)) {
        const ReadSet& set = program.reads(action);
        for (const WeightRead& read : set.weights)
          events[read.group].push_back({false, action.version + read.offset});
      } else if (action.kind == ActionKind::Step) {
        for (std::size_t g = 0; g < program.weight_groups.size(); ++g)
          if (program.weight_groups[g].owner == action.stage)
            events[WeightGroupId(g)].push_back({true, action.version});
      } else if (action.kind == ActionKind::Receive) {
        const Transfer& transfer = program.transfer(action.transfer);
        if (transfer.is_keyed_by_version())
          events[transfer.group].push_back({true, action.version});
      }
    }
    for (const auto& [group, list] : events)
      program.workers[w].held.push_back({group, max_held(list)});
  }
}

}  // namespace pipewright
