// A time limit that several searches share. Each takes its part of what is left
// when it begins, so what one does not need goes to those that come later, and
// none ends after the limit (or a millisecond after it begins).

#pragma once

#include <functional>
#include <mutex>

#include "pipewright/base/units.h"

namespace pipewright {

class SharedTime {
 public:
  using Clock = std::function<double()>;  // seconds since some moment

  // The limit begins now. `total_weight` is that of all searches together, of
  // which `at_once` run at the same time.
  SharedTime(Seconds limit, double total_weight, int at_once, Clock clock);

  // What the search that begins now may take: its share by weight among those
  // that are left, and at least a millisecond. On any thread.
  Seconds take(double weight);

 private:
  const Clock clock_;
  const double end_;
  const int at_once_;
  std::mutex mutex_;
  double weight_left_;
};

}  // namespace pipewright
