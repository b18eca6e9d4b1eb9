// A worker's actions, one after the other, then the layers of the compute
// actions; see worker.h.

#include "pipewright/runtime/execution/worker.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "pipewright/runtime/execution/layer_timer.h"
#include "pipewright/runtime/execution/message_values.h"

namespace pipewright {
namespace {

// Keeps the list.
void forget(Gradients& gradients) {
  std::fill(gradients.begin(), gradients.end(), at::Tensor());
}

bool is_ours_alone(const at::Tensor& tensor) {
  return tensor.use_count() == 1 && tensor.storage().use_count() == 1 &&
         tensor.is_non_overlapping_and_dense();
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
      weights_(network, program, id, settings, device),
      values_(network.model.num_layers()),
      gradients_(network.model.num_layers()),
      recorded_(network, program, id, settings, device),
      statistics_(network, program, id),
      reduced_(network.model.parameters().size()),
      complete_(network.model.parameters().size()) {}

void Worker::prepare(int minibatches, std::int64_t done,
                     const Trained& before) {
  const int repetitions = program_.repetitions(minibatches);
  const WorkerProgram& program = program_.workers[id_.index()];
  code_.prepare(repetitions);
  done_ = done;
  weights_.restart(before.parameters);
  statistics_.restart(before.statistics, device_);
  values_.clear();
  gradients_.clear();
  forget(reduced_);
  forget(complete_);
  recorded_.begin_run(addresses());
  loss_ = at::Tensor();
  late_losses_.clear();
  losses_.clear();
  losses_.reserve(std::size_t{1} * minibatches * program_.num_microbatches);
  spans_.clear();
  spans_.reserve(program.prologue.size() + program.epilogue.size() +
                 repetitions * program.body.size());
}

void Worker::run(int minibatches, const MicrobatchSource& source,
                 Channel& channel, Clock::time_point start, RunGate& gate) {
  source_ = &source;
  gate_ = &gate;
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
      if (gives_whole_step()) run_whole_step(cursor, is_first_typical);
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
  read_late_losses();
  gate.finish();
}

void Worker::begin(const Action& action) {
  current_ = action;
  current_layer_ = LayerId();
  if (WorkLog* log = device_.log()) log->begin(place());
  channel_->before(action, absolute(action.microbatch));
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
  return device_.computes_at_once() || stopwatch_ || !is_body;
}

bool Worker::lends_messages() const {
  return whole_step_ && !whole_step_->is_off();
}

// Layers are timed action by action.
bool Worker::gives_whole_step() const {
  return lends_messages() && recorded_.is_replayed() &&
         whole_step_->is_joined() && !stopwatch_;
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
    if (action.kind == ActionKind::Forward) statistics_.begin(minibatch);
    load_samples(action, code);
    recorded_.put_samples(place, samples_);
    samples_.clear();
    recorded_.leave(place, code, minibatch, gradients_);
    if (recorded_.has_loss(place))
      losses_.push_back({absolute(action.microbatch), code.samples, 0, {}});
    if (!is_timed) continue;
    Span& span = added_span(action);
    times.insert(times.end(), {&span.start, &span.end});
  }
  recorded_.fill_samples();
  whole_step_->run(id_, is_timed, times);
  if (!recorded_.losses().empty())
    late_losses_.push_back(at::cat(recorded_.losses()));
}

std::vector<const void*> Worker::addresses() const {
  std::vector<const void*> result = weights_.addresses();
  const std::vector<const void*> own = statistics_.addresses();
  result.insert(result.end(), own.begin(), own.end());
  return result;
}

// Where the stamps of its layers go, in their order.
std::vector<Seconds*> Worker::layer_times(const Action& action,
                                          const ActionCode& code) {
  using Part = LayerStopwatch::Part;
  std::vector<Seconds*> times;
  if (!stopwatch_ || !recorded_.is_in_use()) return times;
  const auto add = [&](Part part, LayerId layer) {
    LayerStopwatch::Interval& interval = stopwatch_->add(part, layer);
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
  if (!current_layer_.is_none())
    text += ", layer " + network_.model.layer(current_layer_).name;
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
  for (const Value& value : code.frees) values_.drop(value, action.microbatch);
}

// As recorded, where it is.
void Worker::run_compute(const Action& action, const ActionCode& code,
                         std::int64_t position) {
  if (action.kind == ActionKind::Forward)
    statistics_.begin(program_.minibatch_of(action.microbatch));
  load_samples(action, code);
  if (recorded_.is_off()) {
    compute(action, code);
  } else {
    recorded_.run({place_in_body(position), action, code,
                   [&] { compute(action, code); }, layer_times(action, code)},
                  {values_, gradients_, samples_, loss_});
    if (draws_) recorded_.give_up("a layer draws random numbers");
  }
  samples_.clear();
  if (!loss_.defined()) return;
  const bool is_kept = recorded_.is_in_use() || !is_ours_alone(loss_);
  late_losses_.push_back((is_kept ? loss_.clone() : loss_).view(1));
  losses_.push_back({absolute(action.microbatch), code.samples, 0, {}});
  loss_ = at::Tensor();
}

void Worker::compute(const Action& action, const ActionCode& code) {
  next_sample_ = 0;
  if (action.kind == ActionKind::Forward ||
      action.kind == ActionKind::Recompute)
    forward(action, code);
  else
    backward(action, code);
  for (const Value& value : code.frees) values_.drop(value, action.microbatch);
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
      values_.add_piece(transfer.values[i], action.microbatch,
                        {transfer.first_sample, transfer.end_sample},
                        std::move(message_[i]));
  }
  for (const WeightArrival& arrival : code.arrivals) {
    const std::int32_t version = action.version + arrival.version_offset;
    if (version <= 0 || weights_.has(arrival.group, version)) continue;
    channel_->take(arrival.transfer, version, message_);
    weights_.install(arrival.group, version, message_);
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
    weights_.copy(transfer.group, action.version, message_);
  } else if (recorded_.is_in_use()) {
    message_ = recorded_.message(place_in_body(position));
    is_lent = !message_.empty() && lends_messages();
    if (message_.empty()) copy_recorded(action);
  } else {
    read_message(network_, transfer, action.microbatch, values_, message_);
  }
  for (const Value& value : code.frees) values_.drop(value, action.microbatch);
  if (is_lent)
    channel_->lend(id, program_.key(action), std::move(message_));
  else
    channel_->send(id, program_.key(action), std::move(message_));
}

// Values in memory of recordings, which the next action may write to.
void Worker::copy_recorded(const Action& send) {
  read_message(network_, program_.transfer(send.transfer), send.microbatch,
               values_, message_);
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
    gradients_.drop(layer, program_.minibatch_of(action.microbatch));
  clip(complete_, norm_, settings_.max_norm);
  weights_.step(action.stage, action.version, done_ + action.version - 1,
                complete_);
  forget(complete_);
}

at::Tensor Worker::first_of(Value value, MicrobatchId microbatch,
                            Samples samples) const {
  if (const Tensors* whole = values_.whole(value, microbatch, samples))
    return whole->front();
  return values_.read(value, microbatch, samples).at(0);
}

at::Tensor Worker::output_of(LayerId layer, MicrobatchId microbatch,
                             Samples samples) const {
  const LayerId storage = network_.storage[layer.index()];
  at::Tensor output =
      first_of({ValueKind::Activation, storage}, microbatch, samples);
  if (storage != layer) return output_in(network_, layer, output);
  return output;
}

// Of the data, for all layers of an action.
void Worker::load_samples(const Action& action, const ActionCode& code) {
  samples_.clear();  // a failure may have left some
  if (action.kind != ActionKind::Forward &&
      action.kind != ActionKind::Recompute)
    return;
  for (const LayerCode& layer : code.layers)
    for (const Source& source : layer.layer->inputs) {
      if (!source.is_model_input()) continue;
      current_layer_ = layer.id;
      const at::Tensor whole =
          (*source_)(source.input, absolute(action.microbatch));
      const std::int64_t count = code.samples.end - code.samples.first;
      const at::Tensor samples =
          whole.size(0) == count ? whole
                                 : whole.narrow(0, code.samples.first, count);
      add_sample(samples);
    }
  if (reads_number(code))
    add_sample(at::full({1}, absolute(action.microbatch), at::kLong));
}

void Worker::add_sample(const at::Tensor& sample) {
  samples_.push_back(recorded_.is_replayed() ? sample : device_.bring(sample));
}

// The last of the samples is the number of the microbatch.
bool Worker::reads_number(const ActionCode& code) const {
  return code.draws && settings_.is_training() && device_.records();
}

void Worker::load_inputs(const LayerCode& layer, MicrobatchId microbatch,
                         Samples samples) {
  inputs_.clear();
  for (const Source& source : layer.layer->inputs)
    inputs_.push_back(source.is_model_input()
                          ? samples_[next_sample_++]
                          : output_of(source.layer, microbatch, samples));
}

// kept_value() without its copies.
void Worker::load_kept(const LayerCode& layer, MicrobatchId microbatch,
                       Samples samples) {
  Tensors& own = kept_.kept_private;
  own.clear();
  if (layer.has_private) {
    const Value value{ValueKind::Private, layer.id};
    if (const Tensors* whole = values_.whole(value, microbatch, samples))
      own.assign(whole->begin(), whole->end());
    else
      own = values_.read(value, microbatch, samples);
  }
  const std::vector<Source>& inputs = layer.layer->inputs;
  kept_.inputs.clear();
  kept_.inputs.resize(inputs.size());
  for (std::size_t i = inputs.size(); i-- > 0;) {
    if (!layer.cost->keeps_input[i]) continue;
    if (inputs[i].is_model_input()) {
      kept_.inputs[i] = std::move(own.back());
      own.pop_back();
    } else {
      kept_.inputs[i] = output_of(inputs[i].layer, microbatch, samples);
    }
  }
  kept_.output = layer.cost->keeps_output
                     ? output_of(layer.id, microbatch, samples)
                     : at::Tensor();
}

void Worker::forward(const Action& action, const ActionCode& code) {
  const bool again = action.kind == ActionKind::Recompute;
  const MicrobatchId m = action.microbatch;
  ForwardContext context{
      settings_.seed,          absolute(m), code.samples.first,
      settings_.is_training(),
      /*statistics=*/nullptr,  {},          &draws_};
  if (reads_number(code)) context.number = samples_.back();
  for (const LayerCode& layer : code.layers) {
    const LayerTimer timer(stopwatch_, LayerStopwatch::Part::Forward, layer.id,
                           device_);
    current_layer_ = layer.id;
    context.statistics = again ? nullptr : statistics_.of(layer.id);
    load_inputs(layer, m, code.samples);
    const Tensors& weights =
        weights_.read_back(layer.id, action.version + layer.version_offset,
                           code.steps_back, moved_weights_);
    Forwarded forwarded = [&] {
      const LayerMemory memory(stopwatch_, LayerStopwatch::Part::Forward,
                               layer.id, nullptr, device_);
      return layer.function->forward(inputs_, weights, context);
    }();
    if (layer.is_loss && !again)
      record_loss(layer, m, code.samples, forwarded.output, weights,
                  context.statistics);
    moved_weights_.clear();
    if (layer.has_private)
      values_.replace({ValueKind::Private, layer.id}, m, code.samples,
                      private_value(network_, layer.id, inputs_, forwarded));
    if (layer.has_storage)
      values_.replace({ValueKind::Activation, layer.id}, m, code.samples,
                      std::move(forwarded.output));
    inputs_.clear();
    for (const Value& value : layer.frees) values_.drop(value, m);
  }
}

void Worker::record_loss(const LayerCode& layer, MicrobatchId microbatch,
                         Samples samples, const at::Tensor& loss,
                         const Tensors& weights, Tensors* statistics) {
  PartialLoss part{absolute(microbatch), samples, 0, {}};
  if (settings_.is_training() && !device_.computes_at_once()) {
    loss_ = loss;
    return;
  }
  part.mean = loss.item<double>();
  if (!settings_.is_training()) {
    const std::int64_t first =
        part.microbatch * program_.microbatch + samples.first;
    part.score =
        score_of(*layer.layer, *layer.function, inputs_,
                 settings_.evaluated_samples - first, weights, statistics);
  } else if (!std::isfinite(part.mean)) {
    throw LossIsNotFinite("the loss is " + std::to_string(part.mean));
  }
  losses_.push_back(part);
  gate_->add_loss(part.microbatch, samples.first, samples.end, part.mean);
}

// All steps have been made by now, also those after a loss that is not finite.
void Worker::read_late_losses() {
  if (late_losses_.empty()) return;
  const at::Tensor all = host_copy(at::cat(late_losses_).to(at::kDouble));
  late_losses_.clear();
  for (std::size_t i = 0; i < losses_.size(); ++i) {
    losses_[i].mean = all.const_data_ptr<double>()[i];
    if (!std::isfinite(losses_[i].mean))
      throw LossIsNotFinite(
          "the loss of step " +
          std::to_string(losses_[i].microbatch / program_.num_microbatches +
                         1) +
          " is " + std::to_string(losses_[i].mean));
  }
}

void Worker::backward(const Action& action, const ActionCode& code) {
  for (const LayerCode& layer : code.layers) {
    current_layer_ = layer.id;
    const bool has_weights =
        action.kind != ActionKind::BackwardInput && layer.has_parameters;
    if (action.kind != ActionKind::BackwardWeight) {
      const LayerTimer timer(stopwatch_, LayerStopwatch::Part::BackwardInput,
                             layer.id, device_);
      load_kept(layer, action.microbatch, code.samples);
      backward_inputs(layer, action, code);
      if (!has_weights) end_layer(layer, action.microbatch);
    }
    if (has_weights) {
      const LayerTimer timer(stopwatch_, LayerStopwatch::Part::BackwardWeight,
                             layer.id, device_);
      if (action.kind == ActionKind::BackwardWeight)
        load_kept(layer, action.microbatch, code.samples);
      backward_weights(layer, action.microbatch, code.samples);
      end_layer(layer, action.microbatch);
    }
  }
}

// Lets go of what it looked at, and of what nobody reads any more.
void Worker::end_layer(const LayerCode& layer, MicrobatchId microbatch) {
  kept_.inputs.clear();
  kept_.kept_private.clear();
  kept_.output = at::Tensor();
  for (const Value& value : layer.frees) values_.drop(value, microbatch);
}

void Worker::backward_inputs(const LayerCode& layer, const Action& action,
                             const ActionCode& code) {
  const MicrobatchId m = action.microbatch;
  const Value value{ValueKind::Gradient, layer.id};
  if (layer.seed.defined()) values_.replace(value, m, code.samples, layer.seed);
  const Tensors* whole = values_.whole(value, m, code.samples);
  const at::Tensor cut =
      whole ? at::Tensor() : values_.read(value, m, code.samples).at(0);
  const at::Tensor& gradient = whole ? whole->front() : cut;
  carried_.clear();
  const Tensors& weights =
      weights_.read_back(layer.id, action.version + layer.version_offset,
                         code.steps_back, moved_weights_);
  Tensors of_inputs = [&] {
    const LayerMemory memory(stopwatch_, LayerStopwatch::Part::BackwardInput,
                             layer.id, &carried_, device_);
    if (adds_to_gradient(layer, m, code.samples, weights, gradient))
      return Tensors();
    return layer.function->backward_input(kept_, weights, gradient, &carried_);
  }();
  moved_weights_.clear();
  // The other half reads both.
  if (!carried_.empty() || !whole) {
    Tensors both = {gradient};
    both.insert(both.end(), carried_.begin(), carried_.end());
    values_.replace(value, m, code.samples, std::move(both));
  }
  for (std::size_t i = 0; i < of_inputs.size(); ++i)
    if (of_inputs[i].defined())
      add_gradient(layer.layer->inputs[i].layer, m, code.samples,
                   std::move(of_inputs[i]));
}

// Where the layer itself can add to the sum that other users have begun.
bool Worker::adds_to_gradient(const LayerCode& layer, MicrobatchId microbatch,
                              Samples samples, const Tensors& weights,
                              const at::Tensor& gradient) {
  const std::vector<Source>& inputs = layer.layer->inputs;
  if (inputs.size() != 1 || inputs[0].is_model_input()) return false;
  const Tensors* sum = values_.whole({ValueKind::Gradient, inputs[0].layer},
                                     microbatch, samples);
  if (!sum || !is_ours_alone(sum->front()) || !sum->front().is_contiguous())
    return false;
  at::Tensor whole = sum->front();
  return layer.function->add_backward_input(kept_, weights, gradient, whole);
}

// A running sum over the users so far, possibly begun by another worker, whose
// tensor is not ours to write to; nor is one that is another layer's, too.
void Worker::add_gradient(LayerId layer, MicrobatchId microbatch,
                          Samples samples, at::Tensor gradient) {
  const Value value{ValueKind::Gradient, layer};
  const Tensors* sum = values_.whole(value, microbatch, samples);
  if (sum && is_ours_alone(sum->front())) {
    sum->front().add_(gradient);
    return;
  }
  if (values_.has(value, microbatch))
    gradient = first_of(value, microbatch, samples).add(gradient);
  values_.replace(value, microbatch, samples, std::move(gradient));
}

void Worker::backward_weights(const LayerCode& layer, MicrobatchId microbatch,
                              Samples samples) {
  const Value value{ValueKind::Gradient, layer.id};
  const Tensors* both = values_.whole(value, microbatch, samples);
  Tensors cut;
  if (!both) {
    cut = values_.read(value, microbatch, samples);
    both = &cut;
  }
  carried_.assign(both->begin() + 1, both->end());
  Tensors& sums = gradients_.of(layer.id, program_.minibatch_of(microbatch));
  if (sums.empty()) {
    // What it makes stays: only adding to it needs temporary memory.
    sums = layer.function->backward_weight(kept_, both->front(), carried_);
  } else {
    const LayerMemory memory(stopwatch_, LayerStopwatch::Part::BackwardWeight,
                             layer.id, &carried_, device_);
    layer.function->add_backward_weight(kept_, both->front(), carried_, sums);
  }
  carried_.clear();
}

}  // namespace pipewright
