#include "pipewright/plan/lowering/versions.h"

#include <algorithm>

#include "pipewright/base/check.h"
#include "pipewright/base/index.h"

namespace pipewright {
namespace {

constexpr std::int32_t kNever = INT32_MAX;

bool gives_weight_gradient(ComputeKind kind) {
  return kind == ComputeKind::Backward || kind == ComputeKind::BackwardWeight;
}

// [stage][minibatch]: weight gradients that one worker has yet to give.
std::vector<std::vector<int>> gradients_due(
    const std::vector<ComputeAction>& order, int num_stages,
    int num_microbatches, int minibatches) {
  std::vector<std::vector<int>> due(num_stages, std::vector<int>(minibatches));
  for (const ComputeAction& action : order)
    if (gives_weight_gradient(action.kind))
      ++due[action.stage.index()][action.microbatch.index() / num_microbatches];
  return due;
}

}  // namespace

Progress progress_of(const Orders& orders, int num_stages, int num_microbatches,
                     int minibatches) {
  const std::vector<std::vector<std::int32_t>> never(
      num_stages,
      std::vector<std::int32_t>(num_microbatches * minibatches, kNever));
  Progress progress{never, never, never};
  for (const auto& order : orders) {
    auto due = gradients_due(order, num_stages, num_microbatches, minibatches);
    std::vector<std::int32_t> done(num_stages, 0);
    std::vector<MicrobatchId> newest_given(num_stages);
    for (const ComputeAction& action : order) {
      const std::size_t s = action.stage.index();
      const std::size_t m = action.microbatch.index();
      auto& table = action.kind == ComputeKind::Forward     ? progress.forward
                    : action.kind == ComputeKind::Recompute ? progress.recompute
                                                            : progress.backward;
      if (action.kind != ComputeKind::BackwardWeight)
        table[s][m] = std::min(table[s][m], done[s]);
      if (!gives_weight_gradient(action.kind)) continue;
      --due[s][m / num_microbatches];
      newest_given[s] = std::max(newest_given[s], action.microbatch);
      // Replicas that take turns are this far too: they come before this one.
      while (done[s] < minibatches && due[s][at(done[s])] == 0 &&
             (done[s] + 1) * num_microbatches - 1 <= newest_given[s].value)
        ++done[s];
    }
  }
  return progress;
}

Versions::Versions(Method method, Progress progress, int num_microbatches)
    : method_(method),
      progress_(std::move(progress)),
      num_microbatches_(num_microbatches) {}

std::int32_t Versions::forward(const WeightGroup& group, MicrobatchId m) const {
  const std::int32_t minibatch = m.value / num_microbatches_;
  switch (method_) {
    case Method::Sync:
      return minibatch;
    case Method::TwoBw:
      return std::max(minibatch - 1, 0);
    case Method::VerticalSync:
      return progress_.forward.front()[m.index()];
    case Method::Stash:
    case Method::PipeMare:
    case Method::Naive:
      break;
  }
  // Where forward and backward of a layer lie apart, the newest version that
  // both sides have at this microbatch: that of the earlier stage.
  return std::min(progress_.forward[group.forward_stage.index()][m.index()],
                  progress_.forward[group.owner.index()][m.index()]);
}

std::int32_t Versions::read(ComputeKind kind, const WeightGroup& group,
                            MicrobatchId m) const {
  const bool newest = method_ == Method::PipeMare || method_ == Method::Naive;
  if (kind == ComputeKind::Forward || !newest) return forward(group, m);
  const auto& table =
      kind == ComputeKind::Recompute ? progress_.recompute : progress_.backward;
  return table[group.owner.index()][m.index()];
}

StageId Versions::too_early() const {
  for (std::size_t s = 0; s < progress_.forward.size(); ++s) {
    const WeightGroup group{StageId(s), StageId(s), {}, Bytes(0)};
    const auto& made = progress_.forward[s];
    for (std::size_t m = 0; m < made.size(); ++m)
      if (forward(group, MicrobatchId(m)) > made[m]) return StageId(s);
  }
  return StageId();
}

StageDelay Versions::delay(const WeightGroup& group,
                           std::int32_t minibatch) const {
  StageDelay sum;
  for (std::int32_t j = 0; j < num_microbatches_; ++j) {
    const MicrobatchId m(minibatch * num_microbatches_ + j);
    sum.forward += minibatch - read(ComputeKind::Forward, group, m);
    sum.backward += minibatch - read(ComputeKind::Backward, group, m);
    const std::int32_t recompute = read(ComputeKind::Recompute, group, m);
    if (recompute != kNever) sum.recompute += minibatch - recompute;
  }
  const bool corrected = method_ == Method::PipeMare;
  const double distance = (sum.forward - sum.backward) / num_microbatches_;
  return {sum.forward / num_microbatches_, sum.backward / num_microbatches_,
          sum.recompute / num_microbatches_, corrected,
          corrected && distance > 0 ? distance : 0};
}

}  // namespace pipewright
