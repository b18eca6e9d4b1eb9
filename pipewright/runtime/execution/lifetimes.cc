// Liveness of values over a worker's actions; see lifetimes.h.

#include "pipewright/runtime/execution/lifetimes.h"

#include <algorithm>
#include <set>

namespace pipewright {
namespace {

// Values an action reads, and values it makes without looking at what was
// there.
struct Access {
  std::set<Value> reads, makes;
};

Value activation(const Network& network, LayerId layer) {
  return {ValueKind::Activation, network.storage[layer.index()]};
}

Access forward_access(const Network& network,
                      const std::vector<LayerId>& layers) {
  Access access;
  for (const LayerId id : layers) {
    for (const Source& source : network.model.layer(id).inputs)
      if (!source.is_model_input())
        access.reads.insert(activation(network, source.layer));
    if (network.storage[id.index()] == id)
      access.makes.insert({ValueKind::Activation, id});
    if (network.has_private(id)) access.makes.insert({ValueKind::Private, id});
  }
  return access;
}

// A gradient is a running sum: it is never made from nothing here.
Access backward_access(const Network& network,
                       const std::vector<LayerId>& layers, ActionKind kind) {
  Access access;
  for (const LayerId id : layers) {
    const Layer& layer = network.model.layer(id);
    const LayerCost& cost = network.costs[id.index()];
    if (kind == ActionKind::BackwardWeight && layer.parameters.empty())
      continue;
    access.reads.insert({ValueKind::Gradient, id});
    if (cost.keeps_output) access.reads.insert(activation(network, id));
    if (network.has_private(id)) access.reads.insert({ValueKind::Private, id});
    for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
      if (layer.inputs[i].is_model_input()) continue;
      if (cost.keeps_input[i])
        access.reads.insert(activation(network, layer.inputs[i].layer));
      if (kind != ActionKind::BackwardWeight)
        access.reads.insert({ValueKind::Gradient, layer.inputs[i].layer});
    }
  }
  return access;
}

class Accesses {
 public:
  Accesses(const Network& network, const Program& program, WorkerId worker)
      : network_(network), program_(program), worker_(worker) {}

  const Access& of(const Action& action) {
    const bool is_compute_action = is_compute(action.kind);
    const std::pair key(action.kind, is_compute_action ? action.stage.value
                                                       : action.transfer.value);
    const auto known = known_.find(key);
    if (known != known_.end()) return known->second;
    return known_.emplace(key, made(action)).first->second;
  }

 private:
  Access made(const Action& action) const {
    if (action.kind == ActionKind::Send) {
      const auto& transfer = program_.transfer(action.transfer);
      if (transfer.is_keyed_by_version()) return {};
      return {{transfer.values.begin(), transfer.values.end()}, {}};
    }
    if (!is_compute(action.kind)) return {};
    const Operation& operation = *program_.operation(worker_, action.stage);
    if (action.kind == ActionKind::Forward)
      return forward_access(network_, operation.forward);
    if (action.kind == ActionKind::Recompute)
      return forward_access(network_, operation.backward);
    return backward_access(network_, operation.backward, action.kind);
  }

  const Network& network_;
  const Program& program_;
  WorkerId worker_;
  std::map<std::pair<ActionKind, std::int32_t>, Access> known_;
};

// By action: the transfers of activations, gradients and saved tensors that no
// action before it has read.
std::vector<std::vector<TransferId>> first_reads(
    const Program& program, const std::vector<Action>& actions) {
  std::vector<std::vector<TransferId>> takes(actions.size());
  std::set<std::pair<TransferId, std::int32_t>> taken;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (!is_compute(actions[i].kind)) continue;
    const ReadSet& set = program.reads(actions[i]);
    for (const TransferId id : set.transfers)
      if (!program.transfers[id.index()].is_keyed_by_version() &&
          taken.insert({id, actions[i].microbatch}).second)
        takes[i].push_back(id);
  }
  return takes;
}

}  // namespace

std::vector<Value> touched_values(const Network& network, LayerId layer,
                                  ActionKind kind) {
  const bool is_forward =
      kind == ActionKind::Forward || kind == ActionKind::Recompute;
  const Access access = is_forward ? forward_access(network, {layer})
                                   : backward_access(network, {layer}, kind);
  std::vector<Value> touched(access.reads.begin(), access.reads.end());
  touched.insert(touched.end(), access.makes.begin(), access.makes.end());
  return touched;
}

Lifetimes::Lifetimes(const Network& network, const Program& program,
                     WorkerId worker, const std::vector<Action>& actions)
    : index_(actions.size()) {
  Accesses accesses(network, program, worker);
  std::vector<std::vector<TransferId>> takes = first_reads(program, actions);
  std::map<ActionLife, std::int32_t> known;
  std::set<std::pair<std::int32_t, Value>> live;  // behind the action
  for (std::size_t i = actions.size(); i-- > 0;) {
    const std::int32_t microbatch = actions[i].microbatch;
    const Access& access = accesses.of(actions[i]);
    std::set<Value> made = access.makes, touched = access.reads;
    for (const TransferId id : takes[i])
      made.insert(program.transfers[id.index()].values.begin(),
                  program.transfers[id.index()].values.end());
    touched.insert(made.begin(), made.end());
    ActionLife life{std::move(takes[i]), {}};
    for (const Value& value : touched)
      if (!live.count({microbatch, value})) life.frees.push_back(value);
    for (const Value& value : made) live.erase({microbatch, value});
    for (const Value& value : access.reads)
      if (!made.count(value)) live.insert({microbatch, value});
    const auto [found, is_new] =
        known.emplace(life, static_cast<std::int32_t>(lives_.size()));
    if (is_new) lives_.push_back(std::move(life));
    index_[i] = found->second;
  }
}

}  // namespace pipewright
