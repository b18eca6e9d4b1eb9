// The losses of one worker in a run: those that are known, and those that its
// device computes later.

#pragma once

#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "pipewright/runtime/execution/value_store.h"
#include "pipewright/runtime/tensors.h"
#include "pipewright/runtime/training/score.h"

namespace pipewright {

// A loss or a gradient that is NaN or infinite: training cannot go
// on. Thrown before any stage gets to the step of that minibatch; but of a
// gradient, where no norm of all is asked for, only before the worker's own.
class LossIsNotFinite : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The loss of some samples of a microbatch.
struct PartialLoss {
  std::int64_t microbatch = 0;
  Samples samples;
  double mean = 0;
  Score score;  // of an evaluation
};

class RunLosses {
 public:
  // Before a run with at most `num_losses` losses.
  void restart(std::size_t num_losses);
  void add(const PartialLoss& loss) { losses_.push_back(loss); }
  // Of a device that does not compute at once: its mean is known when the late
  // means have been read. They are given in the same order, in lists of one or
  // more.
  void add_late(std::int64_t microbatch, Samples samples) {
    losses_.push_back({microbatch, samples, 0, {}});
  }
  void add_late_means(at::Tensor means) {
    late_means_.push_back(std::move(means));
  }
  // When the run has ended, so that all steps have been made, also those after
  // a loss that is not finite: for that it throws LossIsNotFinite.
  void read_late_means(int microbatches_per_step);
  std::vector<PartialLoss> take() { return std::move(losses_); }

 private:
  std::vector<PartialLoss> losses_;
  std::vector<at::Tensor> late_means_;
};

}  // namespace pipewright
