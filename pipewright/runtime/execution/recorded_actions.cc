// Rehearsed, recorded, replayed; see recorded_actions.h.

#include "pipewright/runtime/execution/recorded_actions.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "pipewright/runtime/error_text.h"
#include "pipewright/runtime/execution/message_values.h"

namespace pipewright {
namespace {

// LibTorch's kernels choose algorithms and allocate workspaces in the first.
constexpr int kWarmUpSteps = 2;
// The first backward of a step makes sums of gradients, the next adds to them.
constexpr int kRehearsals = 2;

// Bytes of a transfer in a step, up to which its messages have memory each.
constexpr std::size_t kMaxMessages = std::size_t{1} << 20;

// The same memory, which somebody else keeps.
at::Tensor borrowed(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                       tensor.options());
}
Tensors borrowed(const Tensors& tensors) {
  Tensors result;
  for (const at::Tensor& tensor : tensors) result.push_back(borrowed(tensor));
  return result;
}

// None of a value that is not there; one may be there without a tensor.
std::optional<std::vector<const void*>> addresses_of(const Tensors* tensors) {
  if (!tensors) return std::nullopt;
  std::vector<const void*> result;
  for (const at::Tensor& tensor : *tensors)
    result.push_back(tensor.defined() ? tensor.const_data_ptr() : nullptr);
  return result;
}

void add_once(const Value& value, std::vector<Value>& values) {
  if (std::find(values.begin(), values.end(), value) == values.end())
    values.push_back(value);
}

bool makes_gradients(const LayerCode& layer, ActionKind kind) {
  return layer.has_parameters &&
         (kind == ActionKind::Backward || kind == ActionKind::BackwardWeight);
}

// Empty if every step of the worker has the same actions in the same memory.
std::string why_not(const Program& program, const WorkerProgram& worker,
                    const TrainingSettings& settings) {
  if (!settings.is_training()) return "it is an evaluation";
  if (!settings.may_record) return "it was asked for";
  if (!worker.prologue.empty() || !worker.epilogue.empty())
    return "microbatches are under way between steps";
  for (const HeldWeights& held : worker.held)
    if (held.versions > 1) return "a worker keeps several versions of weights";
  for (const Transfer& transfer : program.transfers)
    if (transfer.is_keyed_by_version()) return "workers send weights";
  for (const Reduction& reduction : program.reductions)
    if (!reduction.is_norm) return "a stage has replicas or tied weights";
  return {};
}

}  // namespace

RecordedActions::RecordedActions(const Network& network, const Program& program,
                                 WorkerId worker,
                                 const TrainingSettings& settings,
                                 WorkerDevice& device)
    : network_(network),
      program_(program),
      own_(program.workers[worker.index()]),
      device_(device) {
  recorded_.resize(own_.body.size());
  num_compute_ = static_cast<std::size_t>(
      std::count_if(own_.body.begin(), own_.body.end(),
                    [](const Action& each) { return is_compute(each.kind); }));
  why_not_ = pipewright::why_not(program, own_, settings);
  if (!why_not_.empty() || !device.records()) phase_ = Phase::Off;
}

void RecordedActions::give_up(const std::string& why) {
  if (phase_ == Phase::Off) return;
  forget();
  why_not_ = why;
  phase_ = Phase::Off;
}

void RecordedActions::forget() {
  for (Recorded& each : recorded_) each = Recorded();
  num_rehearsed_.clear();
  num_recorded_ = 0;
  num_steps_ = 0;
  phase_ = Phase::WarmUp;
}

// A step that was being recorded may have failed.
void RecordedActions::begin_run(std::vector<const void*> addresses) {
  if (phase_ == Phase::Off) return;
  const bool is_whole = num_recorded_ == num_compute_;
  if (is_in_use() && (!is_whole || addresses != addresses_)) forget();
  addresses_ = std::move(addresses);
}

void RecordedActions::begin_step() {
  if (phase_ == Phase::Recording) {
    phase_ = Phase::Replay;
  } else if (phase_ == Phase::Rehearsal) {
    device_.begin_recordings();
    phase_ = Phase::Recording;
  } else if (phase_ == Phase::WarmUp && ++num_steps_ > kWarmUpSteps) {
    phase_ = Phase::Rehearsal;
  }
}

void RecordedActions::run(const RunningAction& running,
                          const ActionState& state) {
  if (phase_ == Phase::Rehearsal) rehearse(running, state);
  if (phase_ == Phase::Recording)
    record(running, state);
  else if (phase_ == Phase::Replay)
    replay(recorded_[running.place], running, state);
  else
    running.compute();
}

std::vector<Value> RecordedActions::arrived(const ActionCode& code) const {
  std::vector<Value> values;
  for (const TransferId id : code.takes)
    for (const Value& value : program_.transfer(id).values)
      add_once(value, values);
  return values;
}

std::vector<Value> RecordedActions::touched(const ActionCode& code) const {
  std::vector<Value> values = arrived(code);
  const auto add_layer = [&](LayerId layer) {
    add_once({ValueKind::Activation, network_.storage[layer.index()]}, values);
    add_once({ValueKind::Gradient, layer}, values);
  };
  for (const LayerCode& layer : code.layers) {
    add_once({ValueKind::Private, layer.id}, values);
    add_layer(layer.id);
    for (const Source& source : layer.layer->inputs)
      if (!source.is_model_input()) add_layer(source.layer);
    for (const Value& value : layer.frees) add_once(value, values);
  }
  for (const Value& value : code.frees) add_once(value, values);
  return values;
}

// On the step's own values, which are put back: no kernel has run.
void RecordedActions::rehearse(const RunningAction& running,
                               const ActionState& state) {
  if (++num_rehearsed_[&running.code] > kRehearsals) return;
  const MicrobatchId m = running.action.microbatch;
  const std::int32_t minibatch = program_.minibatch_of(m);
  const Samples range = running.code.samples;
  const std::vector<Value> values = touched(running.code);
  std::vector<Change> before;
  for (const Value& value : values) {
    const Tensors* tensors = state.values.whole(value, m, range);
    before.push_back(
        {value, tensors == nullptr, tensors ? *tensors : Tensors()});
  }
  std::vector<Tensors> sums;
  for (const LayerCode& layer : running.code.layers) {
    const Tensors* of_layer = state.gradients.find(layer.id, minibatch);
    sums.push_back(of_layer ? *of_layer : Tensors());
  }
  const Tensors samples = state.samples;
  std::string why;
  try {
    std::vector<at::Tensor> from_outside;
    device_.record([&] {
      make_room(running, state, from_outside);
      running.compute();
    });
  } catch (const std::exception& error) {
    why = "the device cannot record an action: " + first_line(error);
  }
  for (const Change& change : before) {
    if (change.is_dropped)
      state.values.drop(change.value, m);
    else
      state.values.replace(change.value, m, range, change.tensors);
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const LayerCode& layer = running.code.layers[i];
    if (!makes_gradients(layer, running.action.kind)) continue;
    state.gradients.of(layer.id, minibatch) = sums[i];
  }
  state.samples = samples;
  state.loss = at::Tensor();
  if (!why.empty()) give_up(why);
}

std::vector<RecordedActions::Change> RecordedActions::make_room(
    const RunningAction& running, const ActionState& state,
    std::vector<at::Tensor>& from_outside) const {
  std::vector<Change> rooms;
  const MicrobatchId m = running.action.microbatch;
  const Samples range = running.code.samples;
  const auto room_for = [&](const at::Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    return from_outside.emplace_back(at::empty_like(tensor));
  };
  for (const Value& value : arrived(running.code)) {
    const Tensors* message = state.values.whole(value, m, range);
    if (!message) continue;
    Tensors copies;
    for (const at::Tensor& tensor : *message)
      copies.push_back(room_for(tensor));
    rooms.push_back({value, false, borrowed(copies)});
    state.values.replace(value, m, range, std::move(copies));
  }
  for (at::Tensor& sample : state.samples) sample = room_for(sample);
  return rooms;
}

// Of a message that comes in one piece.
void RecordedActions::add_rooms(std::size_t place, const ActionCode& code,
                                TransferId transfer, Values& rooms) const {
  if (phase_ != Phase::Replay) return;
  const Transfer& message = program_.transfer(transfer);
  if (message.first_sample != code.samples.first ||
      message.end_sample != code.samples.end)
    return;
  for (const Value& value : message.values) {
    Tensors& tensors = rooms.emplace_back();
    for (const Change& room : recorded_[place].rooms)
      if (room.value == value) tensors = room.tensors;
  }
}

// In the order of make_room().
std::vector<at::Tensor> RecordedActions::outside(
    const RunningAction& running, const ActionState& state) const {
  std::vector<at::Tensor> result;
  const auto add = [&](const Tensors& tensors) {
    for (const at::Tensor& tensor : tensors)
      if (tensor.defined()) result.push_back(tensor);
  };
  for (const Value& value : arrived(running.code))
    if (const Tensors* message = state.values.whole(
            value, running.action.microbatch, running.code.samples))
      add(*message);
  add(state.samples);
  return result;
}

// Values of this step stay the owners of their memory, so that what the next
// actions record does not use it too early.
void RecordedActions::record(const RunningAction& running,
                             const ActionState& state) {
  const MicrobatchId m = running.action.microbatch;
  const Samples range = running.code.samples;
  const std::vector<Value> values = touched(running.code);
  std::vector<std::optional<std::vector<const void*>>> before;
  for (const Value& value : values)
    before.push_back(addresses_of(state.values.whole(value, m, range)));
  const std::vector<at::Tensor> from = outside(running, state);
  Recorded& recorded = recorded_[running.place];
  recorded.recording = device_.record([&] {
    recorded.rooms = make_room(running, state, recorded.from_outside);
    running.compute();
    copy_messages(running, state.values);
  });
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Tensors* after = state.values.whole(values[i], m, range);
    if (addresses_of(after) == before[i]) continue;
    recorded.changes.push_back(
        {values[i], after == nullptr, after ? borrowed(*after) : Tensors()});
  }
  for (const LayerCode& layer : running.code.layers) {
    const Tensors* sums =
        makes_gradients(layer, running.action.kind)
            ? state.gradients.find(layer.id, program_.minibatch_of(m))
            : nullptr;
    recorded.sums.push_back(sums ? borrowed(*sums) : Tensors());
  }
  recorded.loss = borrowed(state.loss);
  for (at::Tensor& tensor : recorded.from_outside) tensor = borrowed(tensor);
  ++num_recorded_;
  give(recorded, from, running.times);
}

// Those that are sent before the next compute action, if those of all
// microbatches are small: a send is then no work of its own.
void RecordedActions::copy_messages(const RunningAction& running,
                                    const ValueStore& values) {
  const std::int32_t begun = running.action.microbatch.value -
                             own_.body[running.place].microbatch.value;
  for (std::size_t i = running.place + 1;
       i < own_.body.size() && !is_compute(own_.body[i].kind); ++i) {
    const Action& send = own_.body[i];
    if (send.kind != ActionKind::Send) continue;
    Values message;
    read_message(network_, program_.transfer(send.transfer),
                 send.microbatch + begun, values, message);
    std::size_t bytes = 0;
    for (const Tensors& tensors : message)
      for (const at::Tensor& tensor : tensors)
        if (tensor.defined()) bytes += tensor.nbytes();
    if (bytes * static_cast<std::size_t>(program_.num_microbatches) >
        kMaxMessages)
      continue;
    for (Tensors& tensors : message)
      for (at::Tensor& tensor : tensors)
        if (tensor.defined()) tensor = tensor.clone();
    recorded_[i].message = std::move(message);
  }
}

void RecordedActions::give(const Recorded& recorded,
                           const std::vector<at::Tensor>& from,
                           std::span<Seconds* const> times) const {
  for (std::size_t i = 0; i < from.size(); ++i) {
    at::Tensor to = recorded.from_outside[i];
    if (to.const_data_ptr() != from[i].const_data_ptr())
      device_.fill(to, from[i]);
  }
  recorded.recording->replay(times);
}

void RecordedActions::replay(const Recorded& recorded,
                             const RunningAction& running,
                             const ActionState& state) const {
  const MicrobatchId m = running.action.microbatch;
  give(recorded, outside(running, state), running.times);
  for (const Change& change : recorded.changes) {
    if (change.is_dropped)
      state.values.drop(change.value, m);
    else
      state.values.replace(change.value, m, running.code.samples,
                           change.tensors);
  }
  for (std::size_t i = 0; i < recorded.sums.size(); ++i)
    if (!recorded.sums[i].empty())
      state.gradients.of(running.code.layers[i].id, program_.minibatch_of(m)) =
          recorded.sums[i];
  state.loss = recorded.loss;
}

}  // namespace pipewright
