#include "pipewright/schedules/zero_bubble_order.h"

#include <algorithm>

#include "pipewright/base/index.h"

namespace pipewright {

VStages v_stages(int worker, int workers) {
  return {StageId(worker), StageId(2 * workers - 1 - worker)};
}

OrderWriter::OrderWriter(int stages, int microbatches)
    : microbatches_(microbatches), done_(at(stages)) {}

ComputeAction OrderWriter::next(StageId stage, ComputeKind kind) {
  Done& done = done_[stage.index()];
  int& count = kind == ComputeKind::Forward ? done.forwards : done.backwards;
  return {.stage = stage, .microbatch = MicrobatchId(count++), .kind = kind};
}

bool OrderWriter::write(StageId stage, ComputeKind kind) {
  const ComputeAction action = next(stage, kind);
  if (action.microbatch.value >= microbatches_) return false;
  order_.push_back(action);
  if (kind == ComputeKind::BackwardInput) {
    waiting_.push_back(action);
    waiting_.back().kind = ComputeKind::BackwardWeight;
  }
  return true;
}

void OrderWriter::backward(StageId stage) {
  if (write(stage, ComputeKind::BackwardInput)) newest_weight();
}

void OrderWriter::newest_weight() {
  order_.push_back(waiting_.back());
  waiting_.pop_back();
}

void OrderWriter::weight(StageId stage) {
  const auto oldest =
      std::find_if(waiting_.begin(), waiting_.end(),
                   [&](const ComputeAction& w) { return w.stage == stage; });
  if (oldest == waiting_.end()) return;
  order_.push_back(*oldest);
  waiting_.erase(oldest);
}

void OrderWriter::oldest_weight() {
  if (!waiting_.empty()) weight(waiting_.front().stage);
}

void OrderWriter::all_weights() {
  order_.insert(order_.end(), waiting_.begin(), waiting_.end());
  waiting_.clear();
}

void OrderWriter::forward_with_backward(StageId forward, StageId backward) {
  const bool has_forward = write(forward, ComputeKind::Forward);
  const bool has_backward = write(backward, ComputeKind::Backward);
  if (has_forward && has_backward) order_[order_.size() - 2].joined = true;
}

std::vector<ComputeAction> delayed_weight_order(int worker, int microbatches,
                                                DelayedWeights shape) {
  const StageId stage(worker);
  OrderWriter order(worker + 1, microbatches);
  for (int m = 0; m < shape.warm_up; ++m) order.forward(stage);
  for (int m = 0; m < microbatches; ++m) {
    order.input(stage);
    if (m >= shape.delay) order.weight(stage);
    order.forward(stage);
  }
  order.all_weights();
  return order.take();
}

}  // namespace pipewright
