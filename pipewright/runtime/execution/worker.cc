#include "pipewright/runtime/execution/worker.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "pipewright/runtime/execution/message_values.h"

namespace pipewright {
namespace {

// Keeps the list.
void forget(Gradients& gradients) {
  std::fill(gradients.begin(), gradients.end(), at::Tensor());
}

// The repetition of the body that begins at this place of a run; -1: none.
int begun_repetition(const WorkerProgram& program, std::int64_t position) {
  const auto first = static_cast<std::int64_t>(program.prologue.size());
  const auto size = static_cast<std::int64_t>(program.body.size());
  if (size == 0 || position < first || (position - first) % size != 0)
    return -1;
  return static_cast<int>((position - first) / size);
}

}  // namespace

Worker::Worker(const Network& network, const Program& program, WorkerId id,
               const TrainingSettings& settings, WorkerDevice& device)
    : network_(network),
      program_(program),
      id_(id),
      settings_(settings),
      device_(device),
      code_(network, program, id, device),
      layers_(network, program, id, settings, device),
      recorded_(network, program, id, settings, device),
      reduced_(network.model.parameters().size()),
      complete_(network.model.parameters().size()) {}

void Worker::prepare(int minibatches, std::int64_t done,
                     const Trained& before) {
  const int repetitions = program_.repetitions(minibatches);
  const WorkerProgram& program = program_.workers[id_.index()];
  code_.prepare(repetitions);
  layers_.restart(minibatches, done, before);
  forget(reduced_);
  forget(complete_);
  recorded_.begin_run(layers_.addresses());
  spans_.clear();
  spans_.reserve(program.prologue.size() + program.epilogue.size() +
                 repetitions * program.body.size());
}

void Worker::run(int minibatches, const MicrobatchSource& source,
                 Channel& channel, Clock::time_point start, RunGate& gate) {
  layers_.begin_run(source, gate);
  channel_ = &channel;
  device_.start_clock(start);
  const WorkerProgram& program = program_.workers[id_.index()];
  int repetitions = program_.repetitions(minibatches);
  bool is_joined = false;  // the action before it, with it: all is there
  bool is_timed = true, times_update = true;
  for (ActionCursor cursor(program_, id_, repetitions); !cursor.at_end();
       cursor.advance()) {
    const int begun = begun_repetition(program, cursor.position());
    if (begun >= 0 && begun < repetitions && !gate.begins(begun)) {
      repetitions = begun;
      code_.prepare(repetitions);
      cursor = at_epilogue(cursor, repetitions);
      if (cursor.at_end()) break;
    }
    if (begun >= 0 && begun < repetitions) {
      begin_step(begun == 0);
      const bool is_first_typical = begun == std::min(1, repetitions - 1);
      is_timed = is_first_typical || times_all_steps();
      times_update = is_timed || begun == 0 || begun == repetitions - 1;
      if (gives_whole_step())
        run_whole_step(cursor, is_first_typical);
      else
        device_.moment();  // for its log: a device that gets on with steps
    }
    const Action action = cursor.action();
    const ActionCode& code = code_.at(cursor.position());
    begin(action);
    if (is_compute(action.kind) && !is_joined)
      wait_for_reads(action, code, cursor.position());
    is_joined = action.joined;
    if (is_joined) wait_for_next(cursor);
    wait_for_reductions(action, code);
    const bool has_span =
        action.kind == ActionKind::Step ? times_update : is_timed;
    if (action.stage.is_none() || !has_span) {
      execute(action, code, cursor.position());
      continue;
    }
    Span& span = added_span(action);
    device_.stamp(span.start);
    execute(action, code, cursor.position());
    device_.stamp(span.end);
  }
  device_.finish();
  layers_.losses().read_late_means(program_.num_microbatches);
  gate.finish();
}

void Worker::begin(const Action& action) {
  current_ = action;
  layers_.leave();
  if (WorkLog* log = device_.log()) log->begin(place());
  channel_->before(action, layers_.absolute(action.microbatch));
}

// The list has memory for all of them: a span stays where it is.
Span& Worker::added_span(const Action& action) {
  return spans_.emplace_back(Span{id_, action.kind, action.stage,
                                  action.microbatch, action.version,
                                  TransferId(), Seconds(), Seconds()});
}

void Worker::begin_step(bool is_first_of_run) {
  recorded_.begin_step();
  if (whole_step_ && whole_step_->is_to_agree(is_first_of_run) &&
      !whole_step_->agree(id_, recorded_.phase()))
    recorded_.start_over();
  channel_->return_messages();
  if (recorded_.is_in_use()) channel_->reuse_messages();
}

// A stamp of a device that does not compute at once is work for it.
bool Worker::times_all_steps() const {
  const WorkerProgram& program = program_.workers[id_.index()];
  const bool is_body = program.prologue.empty() && program.epilogue.empty();
  return device_.computes_at_once() || layers_.stopwatch() || !is_body;
}

bool Worker::lends_messages() const {
  return whole_step_ && !whole_step_->is_off();
}

// Layers are timed action by action.
bool Worker::gives_whole_step() const {
  return lends_messages() && recorded_.is_replayed() &&
         whole_step_->is_joined() && !layers_.stopwatch();
}

void Worker::run_whole_step(ActionCursor& cursor, bool is_timed) {
  std::vector<Seconds*> times;
  for (std::size_t place = 0; place < whole_step_->num_actions(id_);
       ++place, cursor.advance()) {
    const Action action = cursor.action();
    if (!is_compute(action.kind)) continue;
    const ActionCode& code = code_.at(cursor.position());
    const std::int32_t minibatch = program_.minibatch_of(action.microbatch);
    begin(action);
    layers_.begin(action, code, false);
    const ActionState state = layers_.state();
    recorded_.put_samples(place, state.samples);
    state.samples.clear();
    recorded_.leave(place, code, minibatch, state.gradients);
    if (recorded_.has_loss(place))
      layers_.losses().add_late(layers_.absolute(action.microbatch),
                                code.samples);
    if (!is_timed) continue;
    Span& span = added_span(action);
    times.insert(times.end(), {&span.start, &span.end});
  }
  recorded_.fill_samples();
  whole_step_->run(id_, is_timed, times);
  if (!recorded_.losses().empty())
    layers_.losses().add_late_means(at::cat(recorded_.losses()));
}

// Where the stamps of its layers go, in their order.
std::vector<Seconds*> Worker::layer_times(const Action& action,
                                          const ActionCode& code) {
  using Part = LayerStopwatch::Part;
  std::vector<Seconds*> times;
  if (!layers_.stopwatch() || !recorded_.is_in_use()) return times;
  const auto add = [&](Part part, LayerId layer) {
    LayerStopwatch::Interval& interval = layers_.stopwatch()->add(part, layer);
    times.push_back(&interval.start);
    times.push_back(&interval.end);
  };
  for (const LayerCode& layer : code.layers) {
    if (action.kind == ActionKind::Forward ||
        action.kind == ActionKind::Recompute) {
      add(Part::Forward, layer.id);
      continue;
    }
    if (action.kind != ActionKind::BackwardWeight)
      add(Part::BackwardInput, layer.id);
    if (action.kind != ActionKind::BackwardInput && layer.has_parameters)
      add(Part::BackwardWeight, layer.id);
  }
  return times;
}

ActionCursor Worker::at_epilogue(const ActionCursor& cursor,
                                 int repetitions) const {
  ActionCursor ended(program_, id_, repetitions);
  while (ended.position() < cursor.position()) ended.advance();
  return ended;
}

std::string Worker::activity() const {
  std::string text = text_with_worker(place());
  if (const LayerId layer = layers_.current(); !layer.is_none())
    text += ", layer " + network_.model.layer(layer).name;
  return text;
}

void Worker::execute(const Action& action, const ActionCode& code,
                     std::int64_t position) {
  if (is_compute(action.kind)) return run_compute(action, code, position);
  switch (action.kind) {
    case ActionKind::Send:
      send(action, code, position);
      break;
    case ActionKind::Receive:
      channel_->post(action.transfer, program_.key(action));
      break;
    case ActionKind::Reduce:
      reduce(action);
      break;
    default:
      step(action);
      break;
  }
  for (const Value& value : code.frees)
    layers_.values().drop(value, action.microbatch);
}

// As recorded, where it is.
void Worker::run_compute(const Action& action, const ActionCode& code,
                         std::int64_t position) {
  layers_.begin(action, code, !recorded_.is_replayed());
  if (recorded_.is_off()) {
    layers_.compute(action, code);
  } else {
    recorded_.run(
        {place_in_body(position), action, code,
         [&] { layers_.compute(action, code); }, layer_times(action, code)},
        layers_.state());
    if (layers_.has_drawn()) recorded_.give_up("a layer draws random numbers");
  }
  layers_.end(action, code, recorded_.is_in_use());
}

std::size_t Worker::place_in_body(std::int64_t position) const {
  return static_cast<std::size_t>(position) %
         program_.workers[id_.index()].body.size();
}

void Worker::wait_for_reads(const Action& action, const ActionCode& code,
                            std::int64_t position) {
  for (const TransferId id : code.takes) {
    const Transfer& transfer = program_.transfers[id.index()];
    message_.clear();
    if (position >= 0 && recorded_.is_in_use())
      recorded_.add_rooms(place_in_body(position), code, id, message_);
    if (recorded_.is_recording())  // it has memory of its own for it
      channel_->borrow(id, action.microbatch.value, message_);
    else
      channel_->take(id, action.microbatch.value, message_);
    if (channel_->is_lent(id)) recorded_.read_in_place(id, message_);
    for (std::size_t i = 0; i < message_.size(); ++i)
      layers_.values().add_piece(transfer.values[i], action.microbatch,
                                 {transfer.first_sample, transfer.end_sample},
                                 std::move(message_[i]));
  }
  for (const WeightArrival& arrival : code.arrivals) {
    const std::int32_t version = action.version + arrival.version_offset;
    if (version <= 0 || layers_.weights().has(arrival.group, version)) continue;
    channel_->take(arrival.transfer, version, message_);
    layers_.weights().install(arrival.group, version, message_);
    message_.clear();
  }
}

// Joined actions start when both can.
void Worker::wait_for_next(ActionCursor cursor) {
  cursor.advance();
  wait_for_reads(cursor.action(), code_.at(cursor.position()), -1);
}

void Worker::wait_for_reductions(const Action& action, const ActionCode& code) {
  for (const ReductionId r : code.reductions) {
    const Reduction& reduction = program_.reduction(r);
    channel_->reduced(r, action.microbatch, sums_);
    if (reduction.is_norm) norm_ = sums_[0].item<double>();
    for (std::size_t i = 0; i < sums_.size() && !reduction.is_norm; ++i)
      reduced_[reduction.parameters[i].index()] = std::move(sums_[i]);
    sums_.clear();
  }
}

// It lets go of what it does not need itself before others have it: then it is
// theirs alone.
void Worker::send(const Action& action, const ActionCode& code,
                  std::int64_t position) {
  const TransferId id = action.transfer;
  const Transfer& transfer = program_.transfers[id.index()];
  message_.clear();
  bool is_lent = false;
  if (transfer.is_keyed_by_version()) {
    layers_.weights().copy(transfer.group, action.version, message_);
  } else if (recorded_.is_in_use()) {
    message_ = recorded_.message(place_in_body(position));
    is_lent = !message_.empty() && lends_messages();
    if (message_.empty()) copy_recorded(action);
  } else {
    read_message(network_, transfer, action.microbatch, layers_.values(),
                 message_);
  }
  for (const Value& value : code.frees)
    layers_.values().drop(value, action.microbatch);
  if (is_lent)
    channel_->lend(id, program_.key(action), std::move(message_));
  else
    channel_->send(id, program_.key(action), std::move(message_));
}

// Values in memory of recordings, which the next action may write to.
void Worker::copy_recorded(const Action& send) {
  read_message(network_, program_.transfer(send.transfer), send.microbatch,
               layers_.values(), message_);
  for (Tensors& tensors : message_)
    for (at::Tensor& tensor : tensors)
      if (tensor.defined()) tensor = device_.copy(tensor);
}

// Of its stages among these: sums over workers where it has waited for some,
// else its own.
void Worker::complete_gradients(std::span<const StageId> stages,
                                MicrobatchId microbatch) {
  for (const StageId stage : stages)
    if (const Operation* operation = program_.operation(id_, stage))
      add_own_gradients(
          network_.model, *operation,
          [&](LayerId layer) { return own_gradients(layer, microbatch); },
          complete_);
  for (std::size_t i = 0; i < reduced_.size(); ++i)
    if (reduced_[i].defined()) complete_[i] = std::move(reduced_[i]);
}

void Worker::reduce(const Action& action) {
  const Reduction& reduction = program_.reduction(action.reduction);
  contributions_.clear();
  if (reduction.is_norm) {
    complete_gradients(reduction.stages, action.microbatch);
    add_squares(complete_, contributions_);
    forget(complete_);
  } else {
    add_contributions(
        network_.model, reduction,
        [&](LayerId layer) { return own_gradients(layer, action.microbatch); },
        contributions_);
  }
  channel_->contribute(action.reduction, action.microbatch,
                       std::move(contributions_));
}

// Of those that the step that comes now reads.
void Worker::check_gradients() const {
  // All have the same norm before any of them steps.
  if (settings_.max_norm > 0) {
    if (!std::isfinite(norm_))
      throw LossIsNotFinite("the norm of all gradients is " +
                            std::to_string(norm_));
    return;
  }
  for (std::size_t i = 0; i < complete_.size(); ++i)
    if (complete_[i].defined() && !is_finite(complete_[i]))
      throw LossIsNotFinite("the gradient of " +
                            network_.model.parameter(ParameterId(i)).name +
                            " is not finite");
}

void Worker::step(const Action& action) {
  const Operation& operation = *program_.operation(id_, action.stage);
  complete_gradients({&action.stage, 1}, action.microbatch);
  check_gradients();
  for (const LayerId layer : operation.backward)
    layers_.gradients().drop(layer, program_.minibatch_of(action.microbatch));
  clip(complete_, norm_, settings_.max_norm);
  layers_.weights().step(action.stage, action.version,
                         layers_.num_done() + action.version - 1, complete_);
  forget(complete_);
}

}  // namespace pipewright
