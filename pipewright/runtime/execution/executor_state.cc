// What an executor has beside its runs: the state that training goes on from,
// here and in other processes, and following a leader; see executor.h.

#include <c10/core/InferenceMode.h>

#include <map>
#include <utility>

#include "pipewright/runtime/execution/executor.h"
#include "pipewright/runtime/execution/worker.h"
#include "pipewright/runtime/ranks/commands.h"
#include "pipewright/runtime/ranks/packing.h"
#include "pipewright/runtime/ranks/state_exchange.h"

namespace pipewright {

CommandMessage Executor::follow(const Result<MicrobatchSource>& source) {
  while (true) {
    CommandMessage command = next_command(*transport_);
    if (command.command == Command::State) {
      state_here();
    } else if (command.command == Command::Resume) {
      resume_here(unpacked_state(command.argument));
    } else if (command.command == Command::Run) {
      // A failure is everyone's; the leader decides what follows from it.
      static_cast<void>(
          run_here(source, Unpacker(command.argument).number<int>()));
    } else {
      return command;
    }
  }
}

void Executor::share() {
  const SharedState shared(*network_, program_, *transport_);
  if (shared.is_empty()) return;
  PartialState mine;
  for (const auto& [id, maker] : shared.parameters)
    if (transport_->is_here(maker))
      mine.parameters[id] = trained_.parameters[id.index()];
  for (const auto& [layer, maker] : shared.statistics)
    if (transport_->is_here(maker))
      mine.statistics[layer] = trained_.statistics[layer.index()];
  PartialState all = exchange_state(*transport_, mine);
  for (auto& [id, tensor] : all.parameters)
    trained_.parameters[id.index()] = std::move(tensor);
  for (auto& [layer, tensors] : all.statistics)
    trained_.statistics[layer.index()] = std::move(tensors);
}

TrainingState Executor::state() {
  send_command(*transport_, Command::State, {});
  return state_here();
}

TrainingState Executor::state_here() {
  const c10::InferenceMode guard;
  TrainingState state;
  state.minibatches = minibatches_done_;
  for (const at::Tensor& tensor : trained_.parameters)
    state.parameters.push_back(tensor.clone());
  for (const Tensors& tensors : trained_.statistics) {
    Tensors& copies = state.statistics.emplace_back();
    for (const at::Tensor& tensor : tensors) copies.push_back(tensor.clone());
  }
  state.optimizer.resize(state.parameters.size());
  state.velocity.resize(state.parameters.size());
  std::vector<bool> has_parameter(state.parameters.size(), false);
  std::vector<bool> has_statistics(state.statistics.size(), false);
  for (auto worker = workers_.rbegin(); worker != workers_.rend(); ++worker) {
    for (auto& [id, step] : (*worker)->weights().step_states()) {
      state.optimizer[id.index()] = step.optimizer;
      state.velocity[id.index()] = step.velocity;
    }
    for (const auto& [id, version] : (*worker)->weights().newest_versions())
      has_parameter[id.index()] = stale_.empty() || !stale_[id.index()];
    for (const auto& [layer, tensors] : (*worker)->statistics())
      has_statistics[layer.index()] = true;
  }
  return gather_state(*transport_, std::move(state), has_parameter,
                      has_statistics);
}

void Executor::resume(const TrainingState& state) {
  send_command(*transport_, Command::Resume,
               transport_->is_alone() ? "" : packed(state));
  resume_here(state);
}

void Executor::resume_here(const TrainingState& state) {
  const c10::InferenceMode guard;
  minibatches_done_ = state.minibatches;
  trained_.parameters = state.parameters;
  trained_.statistics = state.statistics;
  std::map<ParameterId, WeightStore::StepState> steps;
  for (std::size_t i = 0; i < state.optimizer.size(); ++i)
    steps[ParameterId(i)] = {state.optimizer[i], state.velocity[i]};
  for (const auto& worker : workers_) worker->weights().restore(steps);
}

}  // namespace pipewright
