// The parametric bound: for a trial period T keep, per forward position x, the
// furthest backward position that the workers so far can reach. Further is
// never worse as long as links and memory are left out.

#include <algorithm>
#include <vector>

#include "pipewright/planners/bi_partition/bi_partition_search.h"

namespace pipewright {
namespace {

bool is_reachable(const BiPartitionCosts& costs, double period) {
  const int units = costs.num_units();
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  std::vector<int> reach(at(units + 1), -1);
  reach[0] = 0;
  for (int k = 0; k < costs.num_workers(); ++k) {
    std::vector<int> next = reach;
    for (int x = 0; x <= units; ++x) {
      if (reach[at(x)] < 0) continue;
      // The more forward a worker takes, the less backward is left to it.
      int y2 = units;
      for (int x2 = x; x2 <= units; ++x2) {
        const double left = period - costs.forward(k, x, x2);
        if (left < 0) break;
        while (costs.backward(k, reach[at(x)], y2) > left) --y2;
        next[at(x2)] = std::max(next[at(x2)], y2);
      }
    }
    reach = std::move(next);
  }
  return reach[at(units)] == units;
}

}  // namespace

double communication_free_bound(const BiPartitionCosts& costs) {
  double all = 0;
  for (int k = 0; k < costs.num_workers(); ++k)
    all = std::max(all, costs.forward(k, 0, costs.num_units()) +
                            costs.backward(k, 0, costs.num_units()));
  double low = 0, high = all / costs.num_workers();
  while (high < all && !is_reachable(costs, high)) {
    low = high;
    high *= 1.25;
  }
  // A period that is not reachable is a bound; stop well below profile noise.
  while (high - low > 1e-9 * high) {
    const double middle = (low + high) / 2;
    (is_reachable(costs, middle) ? high : low) = middle;
  }
  return low;
}

}  // namespace pipewright
