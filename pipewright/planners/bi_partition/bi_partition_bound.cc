// The bound without communication and memory. For a trial period T the table
// has, for each forward position x, the furthest backward position that the
// workers so far can reach. Without links and memory, further is never worse.

#include <algorithm>
#include <vector>

#include "pipewright/base/index.h"
#include "pipewright/planners/bi_partition/bi_partition_search.h"

namespace pipewright {
namespace {

bool is_reachable(const BiPartitionCosts& costs, double period) {
  const int units = costs.num_units();
  std::vector<int> reach(at(units + 1), -1);
  reach[0] = 0;
  for (int k = 0; k < costs.num_workers(); ++k) {
    std::vector<int> next = reach;
    for (int x = 0; x <= units; ++x) {
      if (reach[at(x)] < 0) continue;
      // The more forwards a worker takes, the fewer backwards it can take.
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
  // A period that is not reachable is a bound.
  while (high - low > 1e-9 * high) {
    const double middle = (low + high) / 2;
    (is_reachable(costs, middle) ? high : low) = middle;
  }
  return low;
}

}  // namespace pipewright
