#include "pipewright/profile/lowered_times.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace pipewright {
namespace {

constexpr std::array kMeasured = {&LayerTimes::forward,
                                  &LayerTimes::backward_input};

bool is_outlier(const TimesBySize& times, int size, std::size_t layer) {
  const auto next = times.upper_bound(size);
  if (next == times.end()) return false;
  for (Seconds LayerTimes::*time : kMeasured)
    if (times.at(size)[layer].*time > next->second[layer].*time) return true;
  return false;
}

// Of a layer whose times at larger sizes are done, but not at the largest.
Seconds time_if_missing(const TimesBySize& times, int size, std::size_t layer,
                        Seconds LayerTimes::*time) {
  const auto next = times.upper_bound(size);
  const Seconds larger = next->second[layer].*time;
  const auto second = std::next(next);
  if (second == times.end())
    return std::min(times.at(size)[layer].*time, larger);
  const double below = static_cast<double>(next->first - size) /
                       static_cast<double>(second->first - next->first);
  const Seconds line = larger - (second->second[layer].*time - larger) * below;
  return std::clamp(line, larger * (static_cast<double>(size) / next->first),
                    larger);
}

}  // namespace

int lower_outliers(TimesBySize& times) {
  int lowered = 0;
  for (auto table = times.rbegin(); table != times.rend(); ++table)
    for (std::size_t i = 0; i < table->second.size(); ++i)
      if (is_outlier(times, table->first, i)) {
        ++lowered;
        for (Seconds LayerTimes::*time : kMeasured)
          table->second[i].*time =
              time_if_missing(times, table->first, i, time);
      }
  return lowered;
}

bool is_lowered(const TimesBySize& times, int size, std::size_t layer) {
  const auto next = times.upper_bound(size);
  if (next == times.end()) return false;
  const LayerTimes& mine = times.at(size)[layer];
  if (std::next(next) == times.end())
    return std::any_of(kMeasured.begin(), kMeasured.end(),
                       [&](Seconds LayerTimes::*time) {
                         return mine.*time > Seconds(0) &&
                                mine.*time == next->second[layer].*time;
                       });
  return std::all_of(
      kMeasured.begin(), kMeasured.end(), [&](Seconds LayerTimes::*time) {
        return mine.*time == time_if_missing(times, size, layer, time);
      });
}

}  // namespace pipewright
