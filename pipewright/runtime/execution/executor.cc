// Threads and their results; the state that training continues from, here and
// in other processes; see executor.h.

#include "pipewright/runtime/execution/executor.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "pipewright/base/check.h"
#include "pipewright/runtime/channels/message_checksum.h"
#include "pipewright/runtime/channels/transport.h"
#include "pipewright/runtime/devices/cpu_device.h"
#include "pipewright/runtime/error_text.h"
#include "pipewright/runtime/execution/cores.h"
#include "pipewright/runtime/execution/device_watch.h"
#include "pipewright/runtime/execution/message_copies.h"
#include "pipewright/runtime/execution/message_memory.h"
#include "pipewright/runtime/execution/whole_step.h"
#include "pipewright/runtime/execution/worker.h"
#include "pipewright/runtime/execution/worker_threads.h"
#include "pipewright/runtime/out_of_memory.h"
#include "pipewright/runtime/ranks/commands.h"
#include "pipewright/runtime/ranks/packing.h"
#include "pipewright/runtime/ranks/run_report.h"
#include "pipewright/runtime/ranks/state_exchange.h"
#include "pipewright/runtime/training/initial_parameters.h"
#include "pipewright/runtime/unsupported_operator.h"

namespace pipewright {
namespace {

using Clock = std::chrono::steady_clock;

// The first failure of any worker.
class FirstFailure {
 public:
  void record(ErrorCode code, std::string message, std::string where) {
    record(Error{code, std::move(message), "", "", {}}, std::move(where));
  }
  void record(Error error, std::string where) {
    const std::lock_guard lock(mutex_);
    if (error_) return;
    error_ = std::move(error);
    error_->where = std::move(where);
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  std::mutex mutex_;
  std::optional<Error> error_;
};

// Only a worker that was lost asks for another start.
Error failure_of_worker(const std::exception& exception) {
  if (auto error = out_of_memory(exception)) return *error;
  if (auto error = unsupported_operator(exception)) return *error;
  return {ErrorCode::WorkerLost, first_line(exception), "", "", {}};
}

// Of a process that has all workers. One alone has all cores, and gains nothing
// by staying on one.
int own_first_core(int num_workers) {
  return num_workers > 1 && keeps_to_cores(num_workers) ? 0 : -1;
}

std::vector<WorkerDevice*> pointers(const Executor::Devices& devices) {
  std::vector<WorkerDevice*> result;
  for (const auto& device : devices) result.push_back(device.get());
  return result;
}

bool compute_at_once(const Executor::Devices& devices) {
  return std::all_of(devices.begin(), devices.end(), [](const auto& device) {
    return device->computes_at_once();
  });
}

// Means of microbatches from the means of their parts, which replicas report;
// and the scores, in the same order whoever made them.
void join_losses(std::vector<PartialLoss> parts, int microbatch,
                 Executed& executed) {
  std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) {
    return std::pair(a.microbatch, a.samples.first) <
           std::pair(b.microbatch, b.samples.first);
  });
  std::vector<double>& losses = executed.losses;
  for (const PartialLoss& part : parts) executed.score += part.score;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::int32_t samples = parts[i].samples.end - parts[i].samples.first;
    if (i == 0 || parts[i].microbatch != parts[i - 1].microbatch)
      losses.push_back(0);
    losses.back() += parts[i].mean * samples / microbatch;
  }
}

// Where the actions of one minibatch only have spans, the share of its time in
// which the worker computes is taken for all: a step that is timed is longer.
Seconds busy_time(const Program& program, int minibatches,
                  const std::vector<Span>& spans, Seconds duration) {
  std::set<std::int32_t> timed;
  for (const Span& span : spans)
    if (is_compute(span.kind))
      timed.insert(program.minibatch_of(span.microbatch));
  const bool is_one_of_many = timed.size() == 1 && minibatches > 1;
  Seconds busy, before, end;
  for (const Span& span : spans) {
    const std::int32_t minibatch = program.minibatch_of(span.microbatch);
    if (is_one_of_many && minibatch < *timed.begin()) before = span.end;
    if (is_one_of_many && minibatch != *timed.begin()) continue;
    busy += span.end - span.start;
    end = span.end;
  }
  return is_one_of_many && end > before ? busy * (duration / (end - before))
                                        : busy;
}

Timeline measured_timeline(const Program& program, int minibatches,
                           std::vector<std::vector<Span>> spans,
                           const std::vector<Bytes>& memory, Seconds duration) {
  Timeline timeline;
  timeline.num_stages = program.num_stages;
  timeline.num_microbatches = program.num_microbatches;
  timeline.minibatches = minibatches;
  timeline.duration = duration;
  timeline.step_seconds = duration / minibatches;
  Seconds all_busy;
  for (std::size_t w = 0; w < spans.size(); ++w) {
    WorkerSummary summary;
    summary.device = program.workers[w].device;
    summary.busy = busy_time(program, minibatches, spans[w], duration);
    all_busy += summary.busy;
    summary.peak.activations = memory[w];  // all of it: a heap tells no kinds
    timeline.workers.push_back(summary);
  }
  timeline.bubble =
      1 - all_busy / (duration * static_cast<double>(spans.size()));
  timeline.spans = std::move(spans);
  return timeline;
}

std::vector<DeviceWatch::Watched> watched(
    const std::vector<std::unique_ptr<Worker>>& workers,
    const Executor::Devices& devices) {
  std::vector<DeviceWatch::Watched> all;
  for (std::size_t w = 0; w < workers.size(); ++w)
    all.push_back({workers[w]->id(), devices[w].get()});
  return all;
}

// What `work` fails with, where it reads tensors of that worker's device.
Result<void> on_device_of(const Worker& worker,
                          const std::function<void()>& work) {
  try {
    work();
    return {};
  } catch (const std::exception& exception) {
    Error error = failure_of_worker(exception);
    error.where = worker.activity();
    return error;
  }
}

// A weight that a step has made no number, or infinite, of finite gradients;
// or, on a device, of others.
std::optional<Error> not_finite(const Network& network, const Worker& worker) {
  for (const auto& [id, tensor] : worker.weights().newest())
    if (!std::isfinite(tensor.sum(at::kDouble).item<double>()))
      return Error{
          ErrorCode::LossNotFinite,
          network.model.parameter(id).name + " is not finite after a step",
          worker.activity(),
          "",
          {}};
  return std::nullopt;
}

}  // namespace

Executor::Executor(Model model, Program program, TrainingSettings settings,
                   Transport* transport, Devices devices)
    : settings_(std::move(settings)),
      program_(std::move(program)),
      own_transport_(transport ? nullptr : in_process_transport()),
      transport_(transport ? transport : own_transport_.get()),
      devices_(std::move(devices)) {
  const c10::InferenceMode guard;
  trained_.parameters = initial_parameters(model, settings_.seed);
  network_ = std::make_unique<const Network>(std::move(model));
  for (const auto& function : network_->functions)
    trained_.statistics.push_back(function->initial_statistics());
  std::vector<WorkerId> here;
  for (int i = 0; i < program_.num_workers(); ++i)
    if (transport_->is_here(WorkerId(i))) here.push_back(WorkerId(i));
  if (devices_.empty())
    for (std::size_t i = 0; i < here.size(); ++i)
      devices_.push_back(std::make_unique<CpuDevice>());
  PIPEWRIGHT_CHECK(devices_.size() == here.size(), "one device per worker");
  for (std::size_t i = 0; i < here.size(); ++i)
    workers_.push_back(std::make_unique<Worker>(*network_, program_, here[i],
                                                settings_, *devices_[i]));
  if (transport_->is_alone()) join_workers();
}

void Executor::join_workers() {
  const std::vector<WorkerDevice*> devices = pointers(devices_);
  if (!WholeStep::is_possible(program_, devices)) return;
  std::vector<const RecordedActions*> recorded;
  for (const auto& worker : workers_) recorded.push_back(&worker->recorded());
  whole_step_ = std::make_unique<WholeStep>(program_, devices, recorded);
  for (const auto& worker : workers_) worker->join(whole_step_.get());
}

Executor::~Executor() = default;

Result<Executed> Executor::run(const MicrobatchSource& source, int minibatches,
                               const RunHooks& hooks) {
  Packer argument;
  argument.number(minibatches);
  send_command(*transport_, Command::Run, argument.take());
  return run_here(source, minibatches, hooks);
}

Result<Executed> Executor::run_here(const Result<MicrobatchSource>& source,
                                    int minibatches, const RunHooks& hooks) {
  RunReport report;
  if (source)
    report = run_workers(*source, minibatches, hooks);  // or fewer
  else
    report.failure = source.error();
  report = combine_reports(*transport_, std::move(report));
  if (!report.failure) report.failure = report.not_finite;
  if (report.failure) {
    has_failed_ = true;
    if (report.failure->code == ErrorCode::LossNotFinite)
      keep_last_good(report);
    return *report.failure;
  }

  Executed executed;
  std::vector<std::vector<Span>> spans(program_.workers.size());
  std::vector<Bytes> memory(program_.workers.size());
  for (const Span& span : report.spans)
    spans[span.worker.index()].push_back(span);
  for (const auto& [worker, peak] : report.memory)
    memory[worker.index()] = peak;
  join_losses(std::move(report.losses), program_.microbatch, executed);
  executed.timeline = measured_timeline(program_, minibatches, std::move(spans),
                                        memory, report.duration);
  trained_.losses.insert(trained_.losses.end(), executed.losses.begin(),
                         executed.losses.end());
  if (auto collected = collect(minibatches); !collected) {
    has_failed_ = true;
    return collected.error();
  }
  return executed;
}

WorkerThreads& Executor::threads() {
  if (!threads_)
    threads_ = std::make_unique<WorkerThreads>(
        pointers(devices_),
        transport_->is_alone()
            ? own_first_core(static_cast<int>(workers_.size()))
            : transport_->first_core());
  return *threads_;
}

// Each on its worker's thread: what it allocates counts as that worker's.
void Executor::for_each_worker(const std::function<void(Worker&)>& work) {
  std::vector<std::exception_ptr> failures(workers_.size());
  threads().run([&](std::size_t w) {
    try {
      work(*workers_[w]);
    } catch (...) {
      failures[w] = std::current_exception();
    }
  });
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

std::vector<std::unique_ptr<Channel>> Executor::connected_channels() {
  if (std::exchange(has_failed_, false)) transport_->drop_messages();
  auto channels = transport_->connect(program_);
  for (std::size_t i = 0; i < channels.size(); ++i)
    channels[i]->receive_at(devices_[i]->place());
  if (!transport_->is_alone()) return channels;
  const std::vector<WorkerDevice*> devices = pointers(devices_);
  channels = counted_channels(std::move(channels), program_, devices);
  if (!compute_at_once(devices_))
    channels = copying_channels(std::move(channels), program_, devices);
  return channels;
}

RunReport Executor::run_workers(const MicrobatchSource& source,
                                int& minibatches, const RunHooks& hooks) {
  const c10::InferenceMode guard;
  auto channels = connected_channels();
  FirstFailure failure;
  if (whole_step_) whole_step_->begin_run();
  const auto cancel = [&](std::size_t w) {
    if (whole_step_) whole_step_->cancel();
    channels[w]->cancel();
  };
  const auto guarded = [&](std::size_t w, const std::function<void()>& work) {
    try {
      work();
    } catch (const Cancelled&) {
    } catch (const LossIsNotFinite& error) {
      failure.record(ErrorCode::LossNotFinite, error.what(),
                     workers_[w]->activity());
      cancel(w);
    } catch (const CorruptedMessage& error) {
      failure.record(error_of(error), workers_[w]->activity());
      cancel(w);
    } catch (const std::exception& error) {
      failure.record(failure_of_worker(error), workers_[w]->activity());
      // Devices of other ranks may wait for what this one will never send.
      const StallHooks& stalls = transport_->stalls();
      if (failure.error()->code != ErrorCode::LossNotFinite && stalls.give_up &&
          !transport_->is_alone() && !devices_[w]->computes_at_once())
        stalls.give_up(*failure.error());
      cancel(w);
    }
  };
  threads().run([&](std::size_t w) {
    devices_[w]->restart_peak();
    guarded(w, [&] {
      workers_[w]->prepare(minibatches, minibatches_done_, trained_);
      devices_[w]->finish();
    });
  });
  RunReport report;
  report.versions.resize(trained_.parameters.size());
  report.failure = failure.error();
  if (report.failure) return report;
  for (const auto& worker : workers_)
    if (!worker->weights().remember()) report.is_remembered = false;
  const std::unique_ptr<RunGate> gate =
      transport_->gate(program_, program_.repetitions(minibatches),
                       hooks.without(program_.minibatches_outside));
  const DeviceWatch watch(watched(workers_, devices_), transport_->stalls());
  const Clock::time_point start = Clock::now();
  threads().run([&](std::size_t w) {
    guarded(w, [&] {
      workers_[w]->run(minibatches, source, *channels[w], start, *gate);
    });
    // Also after a failure: what channels hold may be in use until then.
    guarded(w, [&] { devices_[w]->finish(); });
  });
  minibatches = gate->repetitions() + program_.minibatches_outside;
  report.duration =
      Seconds(std::chrono::duration<double>(Clock::now() - start).count());
  report.failure = failure.error();
  // Then a device may answer no more.
  if (report.failure && report.failure->code == ErrorCode::WorkerLost)
    return report;
  // Others have gone on after a loss that was read late.
  if (report.failure && report.failure->code == ErrorCode::LossNotFinite &&
      !compute_at_once(devices_))
    report.not_finite = report.failure;
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    Worker& worker = *workers_[w];
    guarded(w, [&] {
      if (!report.not_finite) report.not_finite = not_finite(*network_, worker);
    });
    for (const auto& [id, version] : worker.weights().newest_versions())
      report.versions[id.index()] =
          std::max(report.versions[id.index()], version);
    for (PartialLoss& loss : worker.take_losses())
      report.losses.push_back(loss);
    for (Span& span : worker.take_spans()) report.spans.push_back(span);
    report.memory.emplace_back(worker.id(), devices_[w]->peak());
  }
  report.failure = failure.error();
  return report;
}

// Of what several workers hold (replicas, tied parameters) the first one's
// copy; they are the same.
Result<void> Executor::collect(int minibatches) {
  const c10::InferenceMode guard;
  for (auto worker = workers_.rbegin(); worker != workers_.rend(); ++worker) {
    const Result<void> copied =
        on_device_of(**worker, [&] { copy_trained(**worker); });
    if (copied) continue;
    // Other ranks would wait for what this one does not send.
    const StallHooks& stalls = transport_->stalls();
    if (stalls.give_up && !transport_->is_alone())
      stalls.give_up(copied.error());
    return copied;
  }
  share();
  minibatches_done_ += minibatches;
  return {};
}

void Executor::copy_trained(const Worker& worker) {
  for (const auto& [id, tensor] : worker.weights().newest())
    trained_.parameters[id.index()] = host_copy(tensor);
  for (const auto& [layer, tensors] : worker.statistics().now()) {
    Tensors& kept = trained_.statistics[layer.index()];
    kept.clear();
    for (const at::Tensor& tensor : tensors) kept.push_back(host_copy(tensor));
  }
}

// After a loss or a gradient that is not finite. At a loss gradients of
// that minibatch are incomplete everywhere, so nobody has made its step;
// whoever had yet to make the one before is a replica of somebody who has. At a
// gradient stages behind that one may have made it, and no step is everyone's.
void Executor::keep_last_good(RunReport& report) {
  const auto [least, most] =
      std::minmax_element(report.versions.begin(), report.versions.end());
  if (least == report.versions.end() || *most == 0) return;
  const bool is_synchronous = program_.minibatches_outside == 0;
  if (is_synchronous && *least == *most && !report.not_finite)
    return keep_last_step(*most, std::move(report.losses));
  const c10::InferenceMode guard;
  const bool has_states =
      settings_.optimizer->words() > 0 || !is_synchronous ||
      std::any_of(
          trained_.parameters.begin(), trained_.parameters.end(),
          [&](const auto& weights) {
            return settings_.optimizer->has_master(weights.scalar_type());
          });
  has_state_ = report.is_remembered || !has_states;
  for_each_worker([](Worker& each) { each.weights().restore_remembered(); });
}

// Of several processes each keeps what it has of step `last`.
void Executor::keep_last_step(std::int32_t last,
                              std::vector<PartialLoss> losses) {
  const c10::InferenceMode guard;
  const std::int64_t end =
      (minibatches_done_ + last) * program_.num_microbatches;
  std::erase_if(losses, [end](const PartialLoss& loss) {
    return loss.microbatch >= end;
  });
  std::map<ParameterId, WeightStore::StepState> steps;
  stale_.assign(trained_.parameters.size(), true);
  // As collect(): of replicas, whose statistics differ, the first one's.
  for (auto each = workers_.rbegin(); each != workers_.rend(); ++each) {
    const Worker* worker = each->get();
    const auto newest = worker->weights().newest();
    const auto states = worker->weights().step_states();
    for (const auto& [id, version] : worker->weights().newest_versions()) {
      if (version != last) continue;
      stale_[id.index()] = false;
      trained_.parameters[id.index()] = host_copy(newest.at(id));
      if (const auto state = states.find(id); state != states.end())
        steps[id] = state->second;
    }
    for (const auto& [layer, tensors] : worker->statistics().before(last)) {
      Tensors& kept = trained_.statistics[layer.index()];
      for (std::size_t i = 0; i < kept.size(); ++i)
        kept[i] = host_copy(tensors[i]);
    }
  }
  for_each_worker([&](Worker& each) { each.weights().restore(steps); });
  Executed kept;
  join_losses(std::move(losses), program_.microbatch, kept);
  trained_.losses.insert(trained_.losses.end(), kept.losses.begin(),
                         kept.losses.end());
  minibatches_done_ += last;
}

void Executor::time_layers(LayerStopwatch* stopwatch) {
  for (const auto& worker : workers_) worker->time_layers(stopwatch);
}

bool Executor::is_settled() const {
  return std::all_of(workers_.begin(), workers_.end(), [](const auto& worker) {
    return worker->recorded().is_settled();
  });
}

std::string Executor::why_not_recorded() const {
  for (std::size_t w = 0; w < workers_.size(); ++w)
    if (devices_[w]->records() && !workers_[w]->recorded().why_not().empty())
      return workers_[w]->recorded().why_not();
  return {};
}

std::string Executor::recorded_as() const {
  const bool is_recorded = std::any_of(
      workers_.begin(), workers_.end(),
      [](const auto& worker) { return worker->recorded().is_replayed(); });
  if (!is_recorded) return {};
  if (whole_step_ && whole_step_->is_joined())
    return "one for the step of all workers";
  const bool has_reason = whole_step_ && !whole_step_->why_not().empty();
  return "one for each action" +
         (has_reason ? ": " + whole_step_->why_not() : "");
}

Bytes Executor::reserved() const {
  Bytes bytes;
  for (const auto& device : devices_) bytes += device->reserved();
  return bytes;
}

std::size_t Executor::num_values_held() const {
  std::size_t count = 0;
  for (const auto& worker : workers_) count += worker->num_values_held();
  return count;
}

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
          run_here(source, Unpacker(command.argument).number<int>(), {}));
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
    for (const auto& [layer, tensors] : (*worker)->statistics().now())
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
  stale_.clear();
  has_state_ = true;
  trained_.parameters = state.parameters;
  trained_.statistics = state.statistics;
  std::map<ParameterId, WeightStore::StepState> steps;
  for (std::size_t i = 0; i < state.optimizer.size(); ++i)
    steps[ParameterId(i)] = {state.optimizer[i], state.velocity[i]};
  for_each_worker([&](Worker& each) { each.weights().restore(steps); });
}

}  // namespace pipewright
