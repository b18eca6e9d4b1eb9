// Training piece by piece; see trainer.h.

#include "pipewright/runtime/training/trainer.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "pipewright/base/text.h"
#include "pipewright/runtime/checkpoint/write_weights.h"
#include "pipewright/runtime/data/loader.h"
#include "pipewright/runtime/execution/executor.h"
#include "pipewright/runtime/lost_device.h"
#include "pipewright/runtime/out_of_memory.h"
#include "pipewright/runtime/ranks/commands.h"
#include "pipewright/runtime/training/evaluator.h"
#include "pipewright/runtime/training/loss_spikes.h"
#include "pipewright/runtime/training/milestones.h"
#include "pipewright/runtime/training/not_finite_steps.h"
#include "pipewright/runtime/training/process_memory.h"
#include "pipewright/runtime/training/requested_devices.h"
#include "pipewright/runtime/training/requested_handovers.h"
#include "pipewright/runtime/training/requested_settings.h"
#include "pipewright/runtime/training/run_checkpoints.h"
#include "pipewright/runtime/training/run_folder.h"
#include "pipewright/runtime/training/sample_sets.h"
#include "pipewright/runtime/training/step_reporter.h"
#include "pipewright/runtime/training/step_times.h"

namespace pipewright {
namespace {

constexpr std::int64_t kStepsBeforeRecordings = 4;  // of one piece

class Trainer {
 public:
  Trainer(const Model& model, const TrainRequest& request,
          const TrainHooks& hooks, SampleSets samples, RunFolder folder,
          TrainingSettings settings, std::int64_t steps, Bytes memory_before,
          Executor::Devices for_evaluation)
      : model_(model),
        request_(request),
        hooks_(hooks),
        training_(std::move(samples.training)),
        folder_(std::move(folder)),
        checkpoints_(model, request),
        milestones_{steps,
                    request.checkpoint_every,
                    samples.held_out.has_value(),
                    request.evaluate_every,
                    std::max<std::int64_t>(training_->num_samples(), 1),
                    request.plan.minibatch,
                    request.program.minibatches_outside,
                    request.method.warm_up_steps},
        memory_before_(memory_before),
        settings_(std::move(settings)),
        not_finite_(request.not_finite),
        reporter_(request.program.num_microbatches, request.plan.microbatch,
                  [this](std::int64_t step, double loss, Seconds seconds) {
                    report_step(step, loss, seconds);
                  }) {
    if (samples.held_out)
      evaluator_.emplace(model, request.program, *std::move(samples.held_out),
                         std::move(for_evaluation));
  }

  Result<TrainReport> run() {
    Result<TrainReport> report = run_on_devices();
    if (!report) folder_.add_warning(done_, report.error().to_text());
    return report;
  }

 private:
  // A device may fail between steps, too: when its weights are read for a
  // checkpoint or an evaluation.
  Result<TrainReport> run_on_devices() {
    try {
      return run_all();
    } catch (const std::exception& exception) {
      if (out_of_memory(exception)) throw;
      const std::optional<Error> lost = lost_device(exception);
      if (!lost) throw;
      return checkpoints_.with_hint(*lost);
    }
  }

  Result<TrainReport> run_all() {
    if (auto ready = start(); !ready) return ready.error();
    report_.steps = done_;
    if (done_ >= milestones_.total) return report_;  // nothing is left to do
    std::optional<Loader> loader;
    source_ = training_->microbatches(sample_request());
    if (training_->wants_loader(request_.program.microbatch)) {
      const int two_minibatches = 2 * request_.program.num_microbatches;
      loader.emplace(source_, static_cast<int>(model_.inputs().size()),
                     done_ * request_.program.num_microbatches, two_minibatches,
                     two_minibatches);
      source_ = loader->microbatches();
    }
    if (!has_samples()) return no_samples();
    while (done_ < milestones_.total) {
      if (is_warm_up_over()) {
        const TrainingState state = executor_->state();
        if (auto started = start_executor(&state); !started)
          return started.error();
      }
      if (auto piece = run_piece(); !piece)
        return checkpoints_.with_hint(piece.error());
      if (auto ours = folder_.check_lease(); !ours) return ours.error();
      if (hooks_.signal) report_.signal = hooks_.signal();
      const bool is_early = report_.signal != 0 || !has_samples();
      const bool ends = is_early || done_ == milestones_.total;
      if (is_early) stop_after(done_);
      if (auto evaluated = evaluate_if_due(ends); !evaluated)
        return evaluated.error();
      if (ends || milestones_.passes_checkpoint(checkpoints_.tried(), done_)) {
        const Result<void> saved = save();
        if (!saved && ends) return checkpoints_.with_hint(saved.error());
        if (!saved) warn(checkpoints_.not_saved_text(done_, saved.error()));
      }
      if (ends) break;
    }
    if (auto finished = finish(); !finished) return finished.error();
    if (report_.signal == 0 && done_ < milestones_.total) return no_samples();
    return report_;
  }

  // Whether the next piece can begin: an asynchronous one has at least one step
  // more than it takes to fill the pipeline.
  bool has_samples() const {
    const std::int64_t more = done_ < warm_up_steps() ? 0 : milestones_.outside;
    return training_->has_step(std::min(done_ + more, milestones_.total - 1));
  }
  Error no_samples() const {
    return checkpoints_.with_hint({ErrorCode::MissingInput,
                                   "the data ended after step " +
                                       std::to_string(done_) + " of " +
                                       std::to_string(milestones_.total),
                                   "",
                                   "",
                                   {}});
  }

  SampleRequest sample_request() const {
    const Program& warm_up = request_.method.warm_up;
    const std::int64_t num_warm_up = warm_up_steps();
    const std::int64_t before =
        num_warm_up > 0 ? sample_reads(model_, warm_up) : 0;
    const std::int64_t after = sample_reads(model_, request_.program);
    SampleRequest request;
    request.seed = request_.seed;
    request.microbatch = request_.plan.microbatch;
    request.num_microbatches = request_.program.num_microbatches;
    request.first = done_;
    request.end = milestones_.total;
    request.num_reads = [=](std::int64_t step) {
      return step < num_warm_up ? before : after;
    };
    return request;
  }

  RunHooks run_hooks() {
    RunHooks hooks;
    hooks.is_to_end = [this, before = done_](std::int64_t minibatches) {
      return is_to_end_after(before + minibatches);
    };
    hooks.on_early_end = [this, before = done_](std::int64_t minibatches) {
      stop_after(before + minibatches);
    };
    hooks.on_loss = [this](std::int64_t microbatch, std::int32_t first,
                           std::int32_t end, double mean) {
      reporter_.add(microbatch, first, end, mean);
    };
    return hooks;
  }

  // Because of a signal, if what is left can still fill and drain a pipeline;
  // or because the next step has no samples.
  bool is_to_end_after(std::int64_t step) const {
    const bool can_go_on = milestones_.total - step >= milestones_.outside;
    if (can_go_on && hooks_.signal && hooks_.signal() != 0) return true;
    return !training_->has_step(step);
  }

  void stop_after(std::int64_t step) {
    if (std::exchange(has_stopped_, true) || !hooks_.on_stop) return;
    const std::lock_guard lock(showing_);
    hooks_.on_stop(step);
  }

  std::int64_t warm_up_steps() const {
    return pipewright::warm_up_steps(request_, milestones_.total);
  }
  bool is_warm_up_over() const {
    return program_ == &request_.method.warm_up && done_ >= warm_up_steps();
  }

  // With the program of the next step.
  Result<void> start_executor(const TrainingState* state) {
    program_ =
        done_ < warm_up_steps() ? &request_.method.warm_up : &request_.program;
    executor_.reset();
    PIPEWRIGHT_TRY(Executor::Devices devices, requested_devices(request_));
    if (request_.transport)
      send_begin(*request_.transport, program_ == &request_.method.warm_up
                                          ? BegunProgram::WarmUp
                                          : BegunProgram::Plan);
    executor_ = std::make_unique<Executor>(
        model_, *program_, settings_, request_.transport, std::move(devices));
    if (state) executor_->resume(*state);
    return {};
  }

  Result<void> measure_handovers() {
    if (!wants_handovers(model_, request_)) return {};
    Transport* transport = request_.transport;
    send_begin(*transport, BegunProgram::Handovers);
    PIPEWRIGHT_TRY(
        report_.handovers,
        measured_handovers(requested_handovers(model_, request_), *transport));
    return {};
  }

  Result<void> start() {
    if (auto measured = measure_handovers(); !measured) return measured;
    if (request_.resume) {
      std::vector<Error> skipped;
      PIPEWRIGHT_TRY(const TrainingState state, checkpoints_.resume(skipped));
      for (const Error& error : skipped)
        warn(error.to_text() + "; resuming from step " +
             std::to_string(state.minibatches) + " instead");
      done_ = evaluated_ = state.minibatches;
      if (auto back = folder_.go_back_to(done_); !back) return back;
      if (auto started = start_executor(&state); !started) return started;
    } else if (auto started = start_executor(nullptr); !started) {
      return started;
    }
    report_.first_step = done_;
    if (const std::int64_t fault = request_.injected_step;
        fault > 0 && (fault <= done_ || fault > milestones_.total))
      return bad_configuration(
          "the fault at step " + std::to_string(fault) +
              " would never happen: this run has the steps " +
              std::to_string(done_ + 1) + " to " +
              std::to_string(milestones_.total),
          "choose one of them in --inject");
    const std::int64_t left =
        milestones_.total - std::max(done_, warm_up_steps());
    if (left > 0 && left < milestones_.outside)
      return bad_configuration(
          std::to_string(left) + " steps cannot fill and drain this pipeline",
          "train at least " + std::to_string(milestones_.outside) + " more");
    return {};
  }

  Result<void> run_piece() {
    const std::int64_t before = done_;
    // A device that records has its full speed only afterwards.
    const bool is_settled = executor_->is_settled();
    std::int64_t steps = milestones_.piece(
        done_,
        times_.is_empty() ? std::nullopt : std::optional(times_.latest()),
        around_piece_);
    if (!is_settled) steps = std::min(steps, kStepsBeforeRecordings);
    if (not_finite_.is_repeated(done_)) steps = 1;
    const auto start = std::chrono::steady_clock::now();
    const std::size_t known = executor_->trained().losses.size();
    reporter_.begin(done_);
    Result<Executed> done =
        executor_->run(source_, static_cast<int>(steps), run_hooks());
    reporter_.wait();
    if (done) {
      const std::chrono::duration<double> whole =
          std::chrono::steady_clock::now() - start;
      around_piece_ = Seconds(whole.count()) - done->timeline.duration;
      times_.add(done->timeline.step_seconds, done->timeline.minibatches,
                 is_settled);
      report_.timeline = std::move(done->timeline);
      report_rest(done->losses, before);
      folder_.add(piece_report(), *program_, report_.timeline);
      if (not_finite_.ends_repetition(done_)) end_repetition();
      return {};
    }
    if (done.error().code != ErrorCode::LossNotFinite) return done.error();
    // The executor has the state after the last good step or, if the workers
    // were not all at that step, before this piece.
    const auto good =
        std::span<const double>(executor_->trained().losses).subspan(known);
    report_rest(good, before);
    done_ = before + num_steps(good);
    if (auto back = folder_.go_back_to(done_); !back)
      warn(back.error().to_text());
    return after_bad_step(done.error(), before + steps);
  }

  // One of the steps up to `end`.
  Result<void> after_bad_step(Error error, std::int64_t end) {
    const bool may_skip = !times_.is_empty() || done_ + 1 < milestones_.total;
    const NotFiniteSteps::Verdict verdict =
        not_finite_.after(done_, end, executor_->has_state(), may_skip);
    error.message += verdict.why;
    if (verdict.next == NotFiniteSteps::Next::End) {
      if (done_ > checkpoints_.saved() && executor_->has_state())
        if (auto saved = save(); !saved)
          warn(checkpoints_.not_saved_text(done_, saved.error()));
      return error;
    }
    TrainingState state = executor_->state();
    if (verdict.next == NotFiniteSteps::Next::Skip) {
      skip_step(error);
      state.minibatches = done_;
    } else {
      warn(error.to_text() + "; goes on from step " + std::to_string(done_) +
           " and repeats what follows");
    }
    executor_->resume(state);
    return {};
  }

  void skip_step(const Error& error) {
    ++done_;
    ++report_.skipped;
    warn_if_missed(folder_.add_skipped(done_));
    warn(error.to_text() + "; step " + std::to_string(done_) +
         " is skipped and changes nothing");
  }

  void end_repetition() {
    ++report_.repeated;
    warn("all is finite up to step " + std::to_string(done_) +
         " now that it was repeated: the fault has not come back");
  }

  PieceReport piece_report() const {
    PieceReport piece;
    piece.step = done_;
    piece.steps = milestones_.total;
    for (const WorkerSummary& worker : report_.timeline.workers) {
      piece.busy.push_back(worker.busy / report_.timeline.duration);
      piece.memory.push_back(worker.peak.total());
    }
    for (const StageDelay& delay : program_->delays) {
      piece.rates.push_back(delayed_rate(settings_, done_, delay.forward));
      piece.staleness.push_back(delay.forward);
    }
    return piece;
  }

  std::int64_t num_steps(std::span<const double> losses) const {
    return static_cast<std::int64_t>(losses.size()) /
           request_.program.num_microbatches;
  }

  // The steps of a piece, from the losses of its microbatches, that the
  // reporter does not know: those of other ranks.
  void report_rest(std::span<const double> losses, std::int64_t before) {
    const std::size_t microbatches = request_.program.num_microbatches;
    for (std::int64_t s = done_ - before; s < num_steps(losses); ++s) {
      double loss = 0;
      for (std::size_t m = 0; m < microbatches; ++m)
        loss += losses[s * microbatches + m];
      report_step(before + s + 1, loss / static_cast<double>(microbatches),
                  report_.timeline.step_seconds);
    }
  }

  // On the reporter's thread while a piece runs, else on the trainer's.
  void report_step(std::int64_t done, double loss, Seconds seconds) {
    StepReport step;
    step.rate = request_.rate.at(done_, milestones_.total);
    step.step = done_ = done;
    step.steps = milestones_.total;
    step.loss = loss;
    step.seconds = seconds;
    if (seconds > Seconds(0))
      step.samples_per_second = request_.plan.minibatch / seconds.value();
    if (!report_.timeline.workers.empty())
      step.bubble = report_.timeline.bubble;
    mean_seconds_ = mean_seconds_ == Seconds(0)
                        ? seconds
                        : mean_seconds_ * 0.9 + seconds * 0.1;
    step.left = mean_seconds_ * static_cast<double>(step.steps - done_);
    if (done_ <= report_.first_step + report_.skipped + 1)
      report_.first_loss = loss;
    report_.last_loss = loss;
    warn_if_missed(folder_.add(step));
    if (hooks_.on_step) {
      const std::lock_guard lock(showing_);
      hooks_.on_step(step);
    }
    if (const auto ratio = spikes_.add(loss, report_.first_loss))
      warn("the loss of step " + std::to_string(done_) + ", " +
           to_text(loss, 4) + ", is " + to_text(*ratio) +
           " times the median of the " + std::to_string(LossSpikes::kRecent) +
           " steps before; training goes on");
  }

  Result<void> evaluate_if_due(bool ends) {
    if (!evaluator_) return {};
    if (!ends && !milestones_.passes_evaluation(evaluated_, done_)) return {};
    TrainingState state = executor_->state();
    PIPEWRIGHT_TRY(
        Evaluation evaluation,
        evaluator_->run(
            {std::move(state.parameters), std::move(state.statistics), {}}));
    evaluation.step = evaluated_ = done_;
    report_.evaluation = evaluation;
    if (hooks_.on_evaluation) hooks_.on_evaluation(evaluation);
    warn_if_missed(folder_.add(evaluation));
    return {};
  }

  void warn(const std::string& text) {
    folder_.add_warning(done_, text);
    if (hooks_.on_warning) hooks_.on_warning(text);
  }
  // A line of metrics that cannot be written does not end training. Warns once.
  void warn_if_missed(const Result<void>& added) {
    if (!added && !std::exchange(has_missed_lines_, true))
      warn(added.error().to_text() + "; training goes on without these lines");
    if (added) has_missed_lines_ = false;
  }
  Result<void> save() {
    if (auto ours = folder_.check_lease(); !ours) return ours;
    PIPEWRIGHT_TRY(const std::filesystem::path path,
                   checkpoints_.write(executor_->state()));
    report_.checkpoint = path.string();
    return {};
  }

  // Of an exported model, under the names of its module.
  Result<void> write_trained_weights() {
    if (!model_.exported()) return {};
    const std::filesystem::path file = request_.run / "weights.safetensors";
    if (auto written = write_weights(file, model_, executor_->state());
        !written)
      return written;
    report_.weights = file.string();
    return {};
  }

  Result<void> finish() {
    report_.steps = done_;
    report_.why_not_recorded = executor_->why_not_recorded();
    report_.recorded_as = executor_->recorded_as();
    const bool on_cores = are_on_cores(request_.plan);
    if (!on_cores) report_.kernels = request_.kernels.to_text();
    if (!is_alone(request_))
      report_.between_ranks = request_.transport->message_path();
    report_.step_seconds = times_.median();
    report_.memory =
        std::max(process_memory("VmHWM") - memory_before_, Bytes(0));
    if (auto written = write_trained_weights(); !written) return written;
    return folder_.finish(*program_, report_);
  }

  const Model& model_;
  const TrainRequest& request_;
  const TrainHooks& hooks_;
  const std::unique_ptr<TrainingSamples> training_;
  RunFolder folder_;
  RunCheckpoints checkpoints_;
  const Milestones milestones_;
  const Bytes memory_before_;
  const TrainingSettings settings_;
  const Program* program_ = nullptr;  // in use
  std::unique_ptr<Executor> executor_;
  std::optional<Evaluator> evaluator_;
  MicrobatchSource source_;
  std::int64_t done_ = 0, evaluated_ = 0;
  NotFiniteSteps not_finite_;
  bool has_missed_lines_ = false, has_stopped_ = false;
  std::mutex showing_;  // one hook at a time
  StepTimes times_;
  Seconds around_piece_;  // what the last one took beside its steps
  Seconds mean_seconds_;  // of the last steps, for what is left
  LossSpikes spikes_;
  TrainReport report_;
  StepReporter reporter_;  // the last: its thread uses all the others
};

std::int64_t steps_of(const TrainRequest& request, const SampleSets& samples) {
  if (request.steps > 0) return request.steps;
  return steps_of_epochs(samples.training->num_samples(),
                         request.plan.minibatch, request.epochs);
}

}  // namespace

Result<Outcome> follow_training(const Model& model,
                                const TrainRequest& request) {
  choose_kernels(request.kernels);
  const Result<SampleSets> samples =
      open_samples(model, request, is_alone(request));
  const std::int64_t steps = samples ? steps_of(request, *samples) : 1;
  // Rank 0 has refused what cannot be set, too, and only shuts this rank down.
  const Result<TrainingSettings> made =
      requested_settings(model, request, steps);
  const TrainingSettings settings = made ? *made : TrainingSettings();
  Result<MicrobatchSource> source = bad_configuration("no samples");
  if (samples) {
    SampleRequest wanted;
    wanted.seed = request.seed;
    wanted.microbatch = request.plan.microbatch;
    source = samples->training->microbatches(wanted);
  } else {
    source = samples.error();
  }
  CommandMessage command = next_command(*request.transport);
  while (command.command == Command::Begin) {
    const BegunProgram begun = begun_program(command);
    if (begun == BegunProgram::Handovers) {
      command = follow_handovers(requested_handovers(model, request),
                                 *request.transport);
      continue;
    }
    PIPEWRIGHT_TRY(Executor::Devices devices, requested_devices(request));
    Executor executor(model,
                      begun == BegunProgram::WarmUp ? request.method.warm_up
                                                    : request.program,
                      settings, request.transport, std::move(devices));
    command = executor.follow(source);
  }
  return outcome_of(command);
}

Result<TrainReport> train(const Model& model, const TrainRequest& request,
                          const TrainHooks& hooks) {
  choose_kernels(request.kernels);
  PIPEWRIGHT_TRY(SampleSets samples,
                 open_samples(model, request, is_alone(request)));
  const std::int64_t steps = steps_of(request, samples);
  if (steps < 1)
    return bad_configuration("there are no steps to train",
                             "for example --steps 100");
  PIPEWRIGHT_TRY(TrainingSettings settings,
                 requested_settings(model, request, steps));
  Executor::Devices for_evaluation;
  if (samples.held_out) {
    PIPEWRIGHT_TRY(for_evaluation, evaluation_devices(request));
  }
  LeaseOptions lease;
  lease.on_wait = hooks.on_warning;
  lease.signal = hooks.signal;
  PIPEWRIGHT_TRY(
      RunFolder folder,
      RunFolder::open(request, checkpoint_bytes(model, *settings.optimizer),
                      std::move(lease)));
  const Bytes memory_before = process_memory("VmRSS");
  if (hooks.on_start) {
    hooks.on_start();
    forget_peak_memory();
  }
  Trainer trainer(model, request, hooks, std::move(samples), std::move(folder),
                  std::move(settings), steps, memory_before,
                  std::move(for_evaluation));
  return trainer.run();
}

}  // namespace pipewright
