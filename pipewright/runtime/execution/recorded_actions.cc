// Rehearsed, recorded, replayed; see recorded_actions.h.

#include "pipewright/runtime/execution/recorded_actions.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>
#include <utility>

#include "pipewright/plan/program/repeated_steps.h"
#include "pipewright/runtime/error_text.h"
#include "pipewright/runtime/execution/message_values.h"

namespace pipewright {
namespace {

// LibTorch's kernels choose algorithms and allocate workspaces in the first.
constexpr int kWarmUpSteps = 2;
// The first backward of a step makes sums of gradients, the next adds to them.
constexpr int kRehearsals = 2;

// Samples begin at multiples of it.
constexpr std::size_t kAlignment = 256;
std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// As large as the tensor, at that place of bytes.
at::Tensor view_like(const at::Tensor& tensor, const at::Tensor& bytes,
                     std::size_t first) {
  return bytes
      .narrow(0, static_cast<std::int64_t>(first),
              static_cast<std::int64_t>(tensor.nbytes()))
      .view(tensor.scalar_type())
      .view(tensor.sizes());
}

Tensors borrowed(const Tensors& tensors) {
  Tensors result;
  for (const at::Tensor& tensor : tensors)
    result.push_back(pipewright::borrowed(tensor));
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

// Empty if the worker's actions can be recorded.
std::string why_not(const Program& program, const WorkerProgram& worker,
                    const TrainingSettings& settings) {
  if (!settings.is_training()) return "it is an evaluation";
  if (!settings.may_record) return "it was asked for";
  return why_steps_differ(program, worker);
}

std::string why_not_recorded(const std::exception& error) {
  return "the device cannot record an action: " + first_line(error);
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
  is_in_place_.resize(program.transfers.size(), false);
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

void RecordedActions::start_over() {
  if (phase_ != Phase::Off) forget();
}

// Replays that are under way write their times to memory of their recordings.
void RecordedActions::forget() {
  if (num_recorded_ > 0) device_.finish();
  for (Recorded& each : recorded_) each = Recorded();
  is_in_place_.assign(is_in_place_.size(), false);
  sample_memory_ = host_memory_ = at::Tensor();
  sample_bytes_ = 0;
  losses_.clear();
  foreign_.clear();
  num_rehearsed_.clear();
  num_recorded_ = 0;
  num_steps_ = 0;
  device_.end_recordings();
  phase_ = Phase::WarmUp;
}

void RecordedActions::forget_if_failed() {
  if (!has_failed_) return;
  forget();
  has_failed_ = false;
  phase_ = Phase::Off;
}

// A step that was being recorded may have failed.
void RecordedActions::begin_run(std::vector<const void*> addresses) {
  forget_if_failed();
  if (phase_ == Phase::Off) return;
  const bool is_whole = num_recorded_ == num_compute_;
  if (is_in_use() && (!is_whole || addresses != addresses_)) forget();
  addresses_ = std::move(addresses);
}

void RecordedActions::begin_step() {
  // Of others, values stay from one repetition of the body to the next.
  if (own_.prologue.empty() && own_.epilogue.empty()) forget_if_failed();
  if (phase_ == Phase::Recording) {
    phase_ = Phase::Replay;
  } else if (phase_ == Phase::Rehearsal) {
    device_.begin_recordings();
    phase_ = Phase::Recording;
    sample_end_ = 0;
    const auto bytes =
        std::max<std::int64_t>(static_cast<std::int64_t>(sample_bytes_), 1);
    if (sample_bytes_ <= kSmallStep) {
      host_memory_ = at::zeros({bytes}, at::kByte);
      sample_memory_ = device_.copy(host_memory_);
      foreign_.insert(sample_memory_.storage().data());
    }
  } else if (phase_ == Phase::WarmUp && ++num_steps_ > kWarmUpSteps) {
    phase_ = Phase::Rehearsal;
  }
}

void RecordedActions::run(const RunningAction& running,
                          const ActionState& state) {
  if (phase_ == Phase::Rehearsal) {
    for (const at::Tensor& sample : state.samples)
      sample_bytes_ += aligned(sample.nbytes());
    rehearse(running, state);
  }
  if (phase_ == Phase::Recording)
    record(running, state);
  else if (phase_ == Phase::Replay)
    replay(recorded_[running.place], running, state);
  else
    running.compute();
}

std::vector<Value> RecordedActions::arrived(const ActionCode& code) const {
  std::vector<Value> values;
  for (const TransferId id : code.takes) {
    if (is_in_place_[id.index()]) continue;
    for (const Value& value : program_.transfer(id).values)
      add_once(value, values);
  }
  return values;
}

std::vector<Value> RecordedActions::taken(const ActionCode& code) const {
  std::vector<Value> values;
  for (const TransferId id : code.takes)
    for (const Value& value : program_.transfer(id).values)
      add_once(value, values);
  return values;
}

std::vector<Value> RecordedActions::touched(const ActionCode& code) const {
  std::vector<Value> values = taken(code);
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

// Owners of values keep them from being freed where the action would free them.
// Without, what is not a message stays only as long as the recordings whose
// memory it is in.
RecordedActions::Before RecordedActions::before(const RunningAction& running,
                                                const ActionState& state,
                                                bool is_owner) const {
  const MicrobatchId m = running.action.microbatch;
  const std::vector<Value> messages = taken(running.code);
  const auto kept = [&](const Tensors* tensors, bool is_kept) {
    if (!tensors) return Tensors();
    return is_kept ? *tensors : borrowed(*tensors);
  };
  Before before;
  for (const Value& value : touched(running.code)) {
    const Tensors* tensors = state.values.whole(value, m, running.code.samples);
    const bool is_message =
        std::find(messages.begin(), messages.end(), value) != messages.end();
    before.values.push_back(
        {value, tensors == nullptr, kept(tensors, is_owner || is_message)});
  }
  for (const LayerCode& layer : running.code.layers)
    before.sums.push_back(kept(
        state.gradients.find(layer.id, program_.minibatch_of(m)), is_owner));
  before.samples = state.samples;
  return before;
}

// What is where it was has stayed its owner's.
void RecordedActions::put_back(const Before& before,
                               const RunningAction& running,
                               const ActionState& state) const {
  const MicrobatchId m = running.action.microbatch;
  const Samples range = running.code.samples;
  for (const Change& change : before.values) {
    const Tensors* now = state.values.whole(change.value, m, range);
    if (change.is_dropped)
      state.values.drop(change.value, m);
    else if (addresses_of(now) != addresses_of(&change.tensors))
      state.values.replace(change.value, m, range, change.tensors);
  }
  for (std::size_t i = 0; i < before.sums.size(); ++i) {
    const LayerCode& layer = running.code.layers[i];
    if (!makes_gradients(layer, running.action.kind)) continue;
    Tensors& now = state.gradients.of(layer.id, program_.minibatch_of(m));
    if (addresses_of(&now) != addresses_of(&before.sums[i]))
      now = before.sums[i];
  }
  state.samples = before.samples;
  state.loss = at::Tensor();
}

// On the step's own values, which are put back: no kernel has run.
void RecordedActions::rehearse(const RunningAction& running,
                               const ActionState& state) {
  if (++num_rehearsed_[&running.code] > kRehearsals) return;
  const Before all = before(running, state, /*is_owner=*/true);
  std::string why;
  try {
    std::vector<at::Tensor> from_outside;
    device_.record([&] {
      make_room(running, state, from_outside);
      running.compute();
    });
  } catch (const std::exception& error) {
    why = why_not_recorded(error);
  }
  put_back(all, running, state);
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
  for (at::Tensor& sample : state.samples) {
    const bool has_room = sample_memory_.defined() && is_in_use();
    if (has_room)
      from_outside.push_back(sample);  // place_samples() has moved it there
    else
      sample = room_for(sample);
  }
  return rooms;
}

void RecordedActions::place_samples(const RunningAction& running,
                                    const ActionState& state) {
  if (!sample_memory_.defined()) return;
  for (at::Tensor& sample : state.samples) {
    const at::Tensor here = view_like(sample, sample_memory_, sample_end_);
    recorded_[running.place].host_samples.push_back(
        view_like(sample, host_memory_, sample_end_));
    sample_end_ += aligned(sample.nbytes());
    sample = here;
  }
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
  std::vector<std::optional<std::vector<const void*>>> addresses;
  for (const Value& value : values)
    addresses.push_back(addresses_of(state.values.whole(value, m, range)));
  const Before all = before(running, state, /*is_owner=*/false);
  const std::vector<at::Tensor> from = outside(running, state);
  Recorded& recorded = recorded_[running.place];
  try {
    place_samples(running, state);
    recorded.recording = device_.record([&] {
      recorded.rooms = make_room(running, state, recorded.from_outside);
      running.compute();
      keep_messages(running, state.values);
    });
  } catch (const std::exception& error) {
    why_not_ = why_not_recorded(error);
    phase_ = Phase::Off;
    has_failed_ = true;
    put_back(all, running, state);
    return running.compute();
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Tensors* after = state.values.whole(values[i], m, range);
    if (addresses_of(after) == addresses[i]) continue;
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
  recorded.loss = state.loss;  // may be read when all actions have run
  if (state.loss.defined()) losses_.push_back(state.loss.view(1));
  for (at::Tensor& tensor : recorded.from_outside) tensor = borrowed(tensor);
  ++num_recorded_;
  give(recorded, from, running.times);
}

void RecordedActions::read_in_place(TransferId transfer,
                                    const Values& message) {
  is_in_place_[transfer.index()] = true;
  if (phase_ != Phase::Recording) return;
  for (const Tensors& tensors : message)
    for (const at::Tensor& tensor : tensors)
      if (tensor.defined()) foreign_.insert(tensor.storage().data());
}

// Whether others write to its memory, or the worker itself before the next
// step.
bool RecordedActions::is_foreign(const at::Tensor& tensor) const {
  const auto is_weight = [&](const void* address) {
    return std::find(addresses_.begin(), addresses_.end(), address) !=
           addresses_.end();
  };
  const void* storage = tensor.storage().data();
  return foreign_.contains(storage) || is_weight(storage) ||
         is_weight(tensor.const_data_ptr());
}

// Those that are sent before the next compute action, if those of all
// microbatches are small: nothing else is put there before the next step, and a
// send is no work of its own.
void RecordedActions::keep_messages(const RunningAction& running,
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
        if (tensor.defined())
          bytes += is_foreign(tensor) ? tensor.nbytes()  // will be copied
                                      : tensor.storage().nbytes();
    if (bytes * static_cast<std::size_t>(program_.num_microbatches) >
        kSmallStep)
      continue;
    for (Tensors& tensors : message)
      for (at::Tensor& tensor : tensors)
        if (tensor.defined() && is_foreign(tensor)) tensor = tensor.clone();
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

bool RecordedActions::is_self_contained() const {
  if (!sample_memory_.defined()) return false;
  for (std::size_t place = 0; place < recorded_.size(); ++place) {
    const Recorded& recorded = recorded_[place];
    if (!recorded.rooms.empty()) return false;
    if (own_.body[place].kind == ActionKind::Send && recorded.message.empty())
      return false;
  }
  return true;
}

// Of a few numbers, which an operator would take longer for.
void RecordedActions::put_samples(std::size_t place, const Tensors& samples) {
  for (std::size_t i = 0; i < samples.size(); ++i) {
    at::Tensor& to = recorded_[place].host_samples[i];
    const at::Tensor& from = samples[i];
    if (from.is_cpu() && from.is_contiguous() &&
        from.scalar_type() == to.scalar_type())
      std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), to.nbytes());
    else
      to.copy_(from);
  }
}

void RecordedActions::fill_samples() {
  if (sample_bytes_ > 0) device_.fill(sample_memory_, host_memory_);
}

void RecordedActions::leave(std::size_t place, const ActionCode& code,
                            std::int32_t minibatch,
                            GradientSums& gradients) const {
  const Recorded& recorded = recorded_[place];
  for (std::size_t i = 0; i < recorded.sums.size(); ++i)
    if (!recorded.sums[i].empty())
      gradients.of(code.layers[i].id, minibatch) = recorded.sums[i];
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
  leave(running.place, running.code, program_.minibatch_of(m), state.gradients);
  state.loss = recorded.loss;
}

}  // namespace pipewright
