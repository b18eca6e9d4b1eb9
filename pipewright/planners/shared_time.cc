#include "pipewright/planners/shared_time.h"

#include <algorithm>

namespace pipewright {
namespace {

constexpr double kLeastSeconds = 1e-3;

}  // namespace

SharedTime::SharedTime(Seconds limit, double total_weight, int at_once,
                       Clock clock)
    : clock_(std::move(clock)),
      end_(clock_() + limit.value()),
      at_once_(at_once),
      weight_left_(total_weight) {}

Seconds SharedTime::take(double weight) {
  const std::lock_guard lock(mutex_);
  const double left = std::max(0.0, end_ - clock_());
  const double share =
      std::min(1.0, at_once_ * weight / std::max(weight, weight_left_));
  weight_left_ -= weight;
  return Seconds(std::max(kLeastSeconds, left * share));
}

}  // namespace pipewright
