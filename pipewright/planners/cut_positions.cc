#include "pipewright/planners/cut_positions.h"

#include <functional>

#include "pipewright/base/index.h"

namespace pipewright {
namespace {

// `interval` says in which one a position is.
std::vector<int> lightest_of_intervals(
    const CostTable& costs, const std::function<int(int)>& interval) {
  std::vector<int> positions = {0};
  int before = -1;
  for (int l = 1; l < costs.num_layers(); ++l) {
    const int current = interval(l);
    if (current != before)
      positions.push_back(l);
    else if (costs.crossing(l) < costs.crossing(positions.back()))
      positions.back() = l;
    before = current;
  }
  positions.push_back(costs.num_layers());
  return positions;
}

}  // namespace

std::vector<int> cut_positions(const CostTable& costs, int kind,
                               int max_count) {
  const int layers = costs.num_layers();
  if (layers <= max_count)
    return lightest_of_intervals(costs, [](int l) { return l; });
  const double total = costs.compute(kind, 0, layers).value();
  std::vector<int> positions = lightest_of_intervals(costs, [&](int l) {
    const double share =
        total > 0 ? costs.compute(kind, 0, l).value() / total : 0;
    return static_cast<int>(share * max_count);
  });
  if (positions.size() > at(max_count) / 4) return positions;
  // A few layers take nearly all of the time.
  return lightest_of_intervals(costs, [&](int l) {
    return static_cast<int>(std::int64_t{l} * max_count / layers);
  });
}

int layer_groups(const std::vector<int>& positions) {
  const int groups = static_cast<int>(positions.size()) - 1;
  return groups == positions.back() ? 0 : groups;
}

}  // namespace pipewright
