// Pieces of a run; see trainer.h.

#include "pipewright/runtime/trainer.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <optional>

#include "pipewright/base/text.h"
#include "pipewright/runtime/checkpoint.h"
#include "pipewright/runtime/data/dataset.h"
#include "pipewright/runtime/executor.h"
#include "pipewright/runtime/run_folder.h"

namespace pipewright {
namespace {

// A piece is long enough that starting threads does not count, and short enough
// to answer a signal.
constexpr Seconds kPiece{0.4};
constexpr std::int64_t kMostStepsInPiece = 64;
constexpr std::int64_t kMostStepsUndrained = 1000;

// A figure of /proc/self/status in bytes; 0 where there is none.
Bytes process_memory(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind(key + ":", 0) == 0)
      return Bytes(std::strtoll(line.c_str() + key.size() + 1, nullptr, 10) *
                   1024);
  return Bytes(0);
}

class Trainer {
 public:
  Trainer(const Model& model, const TrainRequest& request,
          const TrainHooks& hooks, Dataset dataset, RunFolder folder,
          std::shared_ptr<const Optimizer> optimizer, std::int64_t steps)
      : model_(model),
        request_(request),
        hooks_(hooks),
        dataset_(std::move(dataset)),
        folder_(std::move(folder)),
        total_(steps),
        memory_before_(process_memory("VmRSS")),
        executor_(model, request.program, settings(std::move(optimizer))),
        source_(microbatches_of(dataset_, {request.seed, request.plan.minibatch,
                                           request.plan.microbatch})) {}

  Result<TrainReport> run() {
    if (request_.resume) {
      PIPEWRIGHT_TRY(const TrainingState state,
                     read_checkpoint(request_.run, model_, origin()));
      executor_.resume(state);
      done_ = saved_ = state.minibatches;
    }
    report_.first_step = done_;
    const std::int64_t outside = request_.program.minibatches_outside;
    if (done_ < total_ && total_ - done_ < outside)
      return bad_configuration(std::to_string(total_ - done_) +
                                   " steps cannot fill and drain this "
                                   "pipeline",
                               "it takes at least " + std::to_string(outside));
    while (done_ < total_) {
      if (auto piece = run_piece(); !piece)
        return with_checkpoint(piece.error());
      if (hooks_.signal) report_.signal = hooks_.signal();
      const bool ends = report_.signal != 0 || done_ == total_;
      if (ends || is_checkpoint_due())
        if (auto saved = save(); !saved) return saved.error();
      if (ends) break;
    }
    return finish();
  }

 private:
  TrainingSettings settings(std::shared_ptr<const Optimizer> optimizer) const {
    TrainingSettings result;
    result.seed = request_.seed;
    result.optimizer = std::move(optimizer);
    result.learning_rate = [rate = request_.rate,
                            total = total_](std::int64_t step) {
      return rate.at(step, total);
    };
    return result;
  }

  CheckpointOrigin origin() const {
    return {request_.plan.model, request_.data, to_text(request_.optimizer),
            request_.seed, request_.plan.minibatch};
  }

  bool is_checkpoint_due() const {
    return request_.checkpoint_every > 0 &&
           done_ % request_.checkpoint_every == 0;
  }

  std::int64_t piece_steps() const {
    std::int64_t until = total_ - done_;
    if (request_.checkpoint_every > 0)
      until = std::min(
          until, request_.checkpoint_every - done_ % request_.checkpoint_every);
    const std::int64_t outside = request_.program.minibatches_outside;
    if (outside == 0) {
      if (times_.empty()) return 1;
      const auto fitting = static_cast<std::int64_t>(kPiece / times_.back());
      return std::clamp<std::int64_t>(fitting, 1,
                                      std::min(until, kMostStepsInPiece));
    }
    // What remains must be enough to fill and drain once more.
    until = std::max(std::min(until, kMostStepsUndrained), outside);
    return total_ - done_ - until < outside ? total_ - done_ : until;
  }

  Result<void> run_piece() {
    const std::int64_t steps = piece_steps();
    Result<Executed> done = executor_.run(source_, static_cast<int>(steps));
    if (!done) return done.error();
    times_.push_back(done->timeline.step_seconds);
    const auto microbatches =
        static_cast<std::size_t>(request_.program.num_microbatches);
    for (std::int64_t i = 0; i < steps; ++i) {
      double loss = 0;
      for (std::size_t m = 0; m < microbatches; ++m)
        loss += done->losses[static_cast<std::size_t>(i) * microbatches + m];
      if (auto told =
              tell(loss / static_cast<double>(microbatches), done->timeline);
          !told)
        return told;
    }
    report_.timeline = std::move(done->timeline);
    return {};
  }

  Result<void> tell(double loss, const Timeline& timeline) {
    StepReport step;
    step.rate = request_.rate.at(done_, total_);
    step.step = ++done_;
    step.steps = total_;
    step.loss = loss;
    step.seconds = timeline.step_seconds;
    step.samples_per_second = request_.plan.minibatch / step.seconds.value();
    step.bubble = timeline.bubble;
    step.left = step.seconds * static_cast<double>(total_ - done_);
    if (done_ == report_.first_step + 1) report_.first_loss = loss;
    report_.last_loss = loss;
    if (auto added = folder_.add(step); !added) return added;
    if (hooks_.on_step) hooks_.on_step(step);
    return {};
  }

  Result<void> save() {
    PIPEWRIGHT_TRY(
        const std::filesystem::path path,
        write_checkpoint(request_.run, model_, origin(), executor_.state()));
    report_.checkpoint = path.string();
    saved_ = done_;
    return {};
  }

  Error with_checkpoint(Error error) const {
    if (error.hint.empty() && has_checkpoint(request_.run))
      error.hint = "the checkpoint of step " + std::to_string(saved_) +
                   " is kept in " + request_.run.string();
    if (error.hint.empty() && error.code == ErrorCode::LossNotFinite)
      error.hint = "try a smaller --lr or a longer --warm-up";
    return error;
  }

  Result<TrainReport> finish() {
    report_.steps = done_;
    // The first piece also warms up allocators and caches.
    if (times_.size() > 2) times_.erase(times_.begin());
    std::sort(times_.begin(), times_.end());
    if (!times_.empty()) report_.step_seconds = times_[times_.size() / 2];
    report_.memory =
        std::max(process_memory("VmHWM") - memory_before_, Bytes(0));
    if (auto written = folder_.finish(request_.program, report_); !written)
      return written.error();
    return report_;
  }

  const Model& model_;
  const TrainRequest& request_;
  const TrainHooks& hooks_;
  const Dataset dataset_;
  RunFolder folder_;
  const std::int64_t total_;
  const Bytes memory_before_;
  Executor executor_;
  const MicrobatchSource source_;
  std::int64_t done_ = 0, saved_ = 0;
  std::vector<Seconds> times_;  // of a step, piece by piece
  TrainReport report_;
};

}  // namespace

Result<TrainReport> train(const Model& model, const TrainRequest& request,
                          const TrainHooks& hooks) {
  PIPEWRIGHT_TRY(auto optimizer, make_optimizer(request.optimizer));
  PIPEWRIGHT_TRY(Dataset dataset, open_dataset(request.data, model));
  const std::int64_t per_epoch =
      minibatches_per_epoch(dataset, request.plan.minibatch);
  if (per_epoch < 1)
    return bad_configuration(dataset.name + " has " +
                                 std::to_string(dataset.num_samples) +
                                 " samples, a minibatch takes " +
                                 std::to_string(request.plan.minibatch),
                             "plan with a smaller --minibatch");
  const std::int64_t steps =
      request.steps > 0 ? request.steps : request.epochs * per_epoch;
  if (steps < 1) return bad_configuration("no step to train", "as --steps 100");
  PIPEWRIGHT_TRY(RunFolder folder, RunFolder::open(request));
  Trainer trainer(model, request, hooks, std::move(dataset), std::move(folder),
                  std::move(optimizer), steps);
  return trainer.run();
}

}  // namespace pipewright
