// Notices a loss that is far above those of the steps before it. The trainer
// warns of it and goes on.

#pragma once

#include <cstddef>
#include <deque>
#include <optional>

namespace pipewright {

class LossSpikes {
 public:
  static constexpr std::size_t kRecent =
      32;                              // losses that one is compared with
  static constexpr double kRatio = 3;  // to their median

  // The loss of the next step. The answer is its ratio to the median of the
  // recent ones where a spike begins: once, until the loss is back below the
  // limit. Small losses of a training that goes well jump, too, so a loss that
  // is not above `first`, that of the run's first step, is no spike.
  std::optional<double> add(double loss, double first);

 private:
  std::deque<double> recent_;
  bool is_in_spike_ = false;
};

}  // namespace pipewright
