// State between ranks; see state_exchange.h.

#include "pipewright/runtime/ranks/state_exchange.h"

#include <algorithm>
#include <set>

#include "pipewright/runtime/ranks/packing.h"

namespace pipewright {
namespace {

// Workers that hold a parameter, and those that step it.
struct Holders {
  std::set<WorkerId> all, owners;
  int groups = 0;
};

std::map<ParameterId, Holders> holders_of(const Network& network,
                                          const Program& program) {
  std::map<ParameterId, Holders> found;
  for (const WeightGroup& group : program.weight_groups)
    for (const LayerId layer : group.layers)
      for (const ParameterId id : network.model.layer(layer).parameters)
        ++found[id].groups;
  for (std::size_t w = 0; w < program.workers.size(); ++w)
    for (const HeldWeights& held : program.workers[w].held) {
      const WeightGroup& group = program.weight_group(held.group);
      const bool owns = program.operation(WorkerId(w), group.owner) != nullptr;
      for (const LayerId layer : group.layers)
        for (const ParameterId id : network.model.layer(layer).parameters) {
          found[id].all.insert(WorkerId(w));
          if (owns) found[id].owners.insert(WorkerId(w));
        }
    }
  return found;
}

// Workers that run a layer forward.
std::set<WorkerId> forward_workers(const Program& program, LayerId layer) {
  std::set<WorkerId> found;
  for (const Operation& operation : program.operations)
    if (std::find(operation.forward.begin(), operation.forward.end(), layer) !=
        operation.forward.end())
      found.insert(operation.worker);
  return found;
}

void pack(Packer& packer, const PartialState& state) {
  packer.number(state.parameters.size());
  for (const auto& [id, tensor] : state.parameters) {
    packer.number(id);
    packer.tensor(tensor);
  }
  packer.number(state.statistics.size());
  for (const auto& [id, tensors] : state.statistics) {
    packer.number(id);
    packer.tensors(tensors);
  }
}

void add(PartialState& all, Unpacker& bytes) {
  for (auto n = bytes.number<std::size_t>(); n > 0; --n) {
    const auto id = bytes.number<ParameterId>();
    all.parameters.emplace(id, bytes.tensor());
  }
  for (auto n = bytes.number<std::size_t>(); n > 0; --n) {
    const auto id = bytes.number<LayerId>();
    all.statistics.emplace(id, bytes.tensors());
  }
}

}  // namespace

SharedState::SharedState(const Network& network, const Program& program,
                         const Transport& transport) {
  if (transport.is_alone()) return;
  const bool overlaps = program.minibatches_outside > 0;
  for (const auto& [id, holders] : holders_of(network, program)) {
    // Replicas have the same bits. So have the owners of a tied parameter,
    // unless each stage has its own delay and rate.
    if (holders.owners.empty() ||
        (holders.all == holders.owners && (holders.groups == 1 || !overlaps)))
      continue;
    parameters.emplace(id, *holders.owners.begin());
  }
  for (std::size_t l = 0; l < network.functions.size(); ++l) {
    if (network.functions[l]->initial_statistics().empty()) continue;
    const auto workers = forward_workers(program, LayerId(l));
    if (workers.size() > 1) statistics.emplace(LayerId(l), *workers.begin());
  }
}

PartialState exchange_state(Transport& transport, const PartialState& mine) {
  Packer packer;
  pack(packer, mine);
  PartialState all;
  for (const std::string& bytes : transport.gather(packer.take())) {
    Unpacker unpacker(bytes);
    add(all, unpacker);
  }
  Packer answer;
  pack(answer, all);
  const std::string bytes = transport.broadcast(answer.take());
  Unpacker unpacker(bytes);
  all = {};
  add(all, unpacker);
  return all;
}

std::string packed(const TrainingState& state) {
  Packer packer;
  packer.number(state.minibatches);
  packer.tensors(state.parameters);
  packer.number(state.statistics.size());
  for (const Tensors& tensors : state.statistics) packer.tensors(tensors);
  packer.number(state.optimizer.size());
  for (const Tensors& tensors : state.optimizer) packer.tensors(tensors);
  packer.tensors(state.velocity);
  return packer.take();
}

TrainingState unpacked_state(std::string_view bytes) {
  Unpacker unpacker(bytes);
  TrainingState state;
  state.minibatches = unpacker.number<std::int64_t>();
  state.parameters = unpacker.tensors();
  state.statistics.resize(unpacker.number<std::size_t>());
  for (Tensors& tensors : state.statistics) tensors = unpacker.tensors();
  state.optimizer.resize(unpacker.number<std::size_t>());
  for (Tensors& tensors : state.optimizer) tensors = unpacker.tensors();
  state.velocity = unpacker.tensors();
  return state;
}

TrainingState gather_state(Transport& transport, TrainingState mine,
                           const std::vector<bool>& has_parameter,
                           const std::vector<bool>& has_statistics) {
  if (transport.is_alone()) return mine;
  TrainingState part = mine;
  for (std::size_t i = 0; i < has_parameter.size(); ++i)
    if (!has_parameter[i]) {
      part.parameters[i] = at::Tensor();
      part.optimizer[i].clear();
      part.velocity[i] = at::Tensor();
    }
  for (std::size_t l = 0; l < has_statistics.size(); ++l)
    if (!has_statistics[l]) part.statistics[l].clear();
  auto all = transport.gather(packed(part));
  for (auto bytes = all.rbegin(); bytes != all.rend(); ++bytes) {
    TrainingState theirs = unpacked_state(*bytes);
    for (std::size_t i = 0; i < has_parameter.size(); ++i) {
      if (!theirs.parameters[i].defined()) continue;
      mine.parameters[i] = theirs.parameters[i];
      mine.optimizer[i] = theirs.optimizer[i];
      mine.velocity[i] = theirs.velocity[i];
    }
    for (std::size_t l = 0; l < has_statistics.size(); ++l)
      if (!theirs.statistics[l].empty())
        mine.statistics[l] = std::move(theirs.statistics[l]);
  }
  return mine;
}

}  // namespace pipewright
