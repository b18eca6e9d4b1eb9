#include "pipewright/runtime/training/loss_spikes.h"

#include <algorithm>
#include <vector>

namespace pipewright {

std::optional<double> LossSpikes::add(double loss, double first) {
  double median = 0;
  if (recent_.size() == kRecent) {
    std::vector<double> sorted(recent_.begin(), recent_.end());
    const auto middle = sorted.begin() + kRecent / 2;
    std::nth_element(sorted.begin(), middle, sorted.end());
    median = *middle;
    recent_.pop_front();
  }
  recent_.push_back(loss);
  const bool was_in_spike = is_in_spike_;
  is_in_spike_ = median > 0 && loss > kRatio * median && loss > first;
  if (!is_in_spike_ || was_in_spike) return std::nullopt;
  return loss / median;
}

}  // namespace pipewright
