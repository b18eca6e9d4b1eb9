#include "pipewright/runtime/training/milestones.h"

#include <algorithm>

namespace pipewright {
namespace {

// Long enough that the start of a piece does not count, and short enough to
// react to a signal.
constexpr Seconds kPiece{0.4}, kLongestPiece{10};
constexpr double kPiecePerAround = 20;
constexpr std::int64_t kMaxStepsInPiece = 64;
constexpr std::int64_t kMaxStepsUndrained = 1000;

std::int64_t next_multiple(std::int64_t done, std::int64_t every) {
  return (done / every + 1) * every;
}

}  // namespace

// The last step of an epoch is the one that trains on its last sample.
std::int64_t Milestones::next_evaluation(std::int64_t done) const {
  if (evaluate_every > 0) return next_multiple(done, evaluate_every);
  std::int64_t epochs = done * minibatch / samples;
  std::int64_t step = 0;
  do {
    ++epochs;
    step = (epochs * samples + minibatch - 1) / minibatch;
  } while (step <= done);
  return step;
}

bool Milestones::passes_checkpoint(std::int64_t before,
                                   std::int64_t done) const {
  return checkpoint_every > 0 &&
         done / checkpoint_every > before / checkpoint_every;
}

bool Milestones::passes_evaluation(std::int64_t before,
                                   std::int64_t done) const {
  return evaluates && next_evaluation(before) <= done;
}

std::int64_t Milestones::piece(std::int64_t done, std::optional<Seconds> step,
                               Seconds around) const {
  std::int64_t until = total;
  if (checkpoint_every > 0)
    until = std::min(until, next_multiple(done, checkpoint_every));
  if (evaluates) until = std::min(until, next_evaluation(done));
  const bool is_warm_up = done < warm_up;
  if (is_warm_up) until = std::min(until, warm_up);
  std::int64_t steps = until - done;
  if (outside == 0 || is_warm_up) {
    if (!step) return 1;
    const Seconds wanted =
        std::clamp(around * kPiecePerAround, kPiece, kLongestPiece);
    const auto fitting = static_cast<std::int64_t>(wanted / *step);
    return std::clamp<std::int64_t>(fitting, 1,
                                    std::min(steps, kMaxStepsInPiece));
  }
  // What remains must be enough to fill and drain once more.
  steps = std::max(std::min(steps, kMaxStepsUndrained), outside);
  return total - done - steps < outside ? total - done : steps;
}

}  // namespace pipewright
