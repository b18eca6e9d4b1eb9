// What the zero-bubble generators share: a writer of orders, the V of two
// stages per worker, and the order of one stage per worker with delayed W.
//
// For the generators in this folder only.

#pragma once

#include <utility>
#include <vector>

#include "pipewright/plan/schedule/schedule.h"

namespace pipewright {

// The V: worker w of p has stage w on the way down and 2p-1-w on the way up, so
// that the first worker has both ends and the last the two middle stages.
//
//   worker 0: 0       7
//   worker 1:   1   6
//   worker 2:    2 5
//   worker 3:     34
struct VStages {
  StageId down, up;
};
VStages v_stages(int worker, int workers);

// Writes the order of one worker. Each call writes the next microbatch of a
// stage and kind; microbatches beyond `microbatches` are left out. So a
// published order that needs more microbatches is written for that many, and
// the rest still has every dependency before its use.
class OrderWriter {
 public:
  OrderWriter(int stages, int microbatches);

  void forward(StageId stage) { write(stage, ComputeKind::Forward); }
  void backward(StageId stage);  // I and its W
  void input(StageId stage) { write(stage, ComputeKind::BackwardInput); }
  void weight(StageId stage);  // of the stage's oldest I without W, if any
  void oldest_weight();        // of the oldest I without W, if any
  void all_weights();
  void whole_backward(StageId stage) { write(stage, ComputeKind::Backward); }
  // F joined with B.
  void forward_with_backward(StageId forward, StageId backward);

  int forwards(StageId stage) const { return done_[stage.index()].forwards; }
  std::vector<ComputeAction> take() { return std::move(order_); }

 private:
  struct Done {
    int forwards = 0, backwards = 0;
  };
  ComputeAction next(StageId stage, ComputeKind kind);
  bool write(StageId stage, ComputeKind kind);
  void newest_weight();

  int microbatches_;
  std::vector<Done> done_;
  std::vector<ComputeAction> waiting_;  // W whose I is written, oldest first
  std::vector<ComputeAction> order_;
};

// One stage per worker: begins with warm_up F; then every I is followed by the
// W of the I `delay` microbatches earlier, and by one more F.
struct DelayedWeights {
  int warm_up = 1;
  int delay = 0;
};
std::vector<ComputeAction> delayed_weight_order(int worker, int microbatches,
                                                DelayedWeights shape);

}  // namespace pipewright
