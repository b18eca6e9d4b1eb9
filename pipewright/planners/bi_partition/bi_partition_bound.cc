// The bound without communication and memory. For a trial period T the table
// has, for each forward position x, the furthest backward position that the
// workers so far can reach. Without links and memory, further is never worse.
// With replicas all devices may share all work evenly.

#include <algorithm>
#include <vector>

#include "pipewright/base/index.h"
#include "pipewright/base/infinity.h"
#include "pipewright/planners/bi_partition/bi_partition_search.h"

namespace pipewright {
namespace {

// How far device k can take the backward from y within the given time.
int furthest_backward(const BiPartitionCosts& costs, int k, int y,
                      double seconds) {
  int low = y, high = costs.num_units();  // low can be reached
  while (low < high) {
    const int middle = low + (high - low + 1) / 2;
    if (costs.backward({k, 1}, y, middle) > seconds)
      high = middle - 1;
    else
      low = middle;
  }
  return low;
}

bool is_reachable(const BiPartitionCosts& costs, double period) {
  const int units = costs.num_units();
  std::vector<int> reach(at(units + 1), -1);
  reach[0] = 0;
  for (int k = 0; k < costs.num_devices(); ++k) {
    std::vector<int> next = reach;
    int furthest = -1;  // of all larger x
    for (int x = units; x >= 0; --x) {
      const int y = reach[at(x)];
      if (y <= furthest) continue;  // a larger x goes as far, and further
      furthest = y;
      // The more forwards a worker takes, the fewer backwards it can take.
      int y2 = furthest_backward(costs, k, y, period);
      for (int x2 = x; x2 <= units; ++x2) {
        const double left = period - costs.forward({k, 1}, x, x2);
        if (left < 0) break;
        while (costs.backward({k, 1}, y, y2) > left) --y2;
        next[at(x2)] = std::max(next[at(x2)], y2);
      }
    }
    reach = std::move(next);
  }
  return reach[at(units)] == units;
}

// Every unit on the device that is fastest for it.
double least_work(const BiPartitionCosts& costs) {
  double sum = 0;
  for (int unit = 0; unit < costs.num_units(); ++unit) {
    double forward = kInfinity, backward = kInfinity;
    for (int d = 0; d < costs.num_devices(); ++d) {
      forward = std::min(forward, costs.forward({d, 1}, unit, unit + 1));
      backward = std::min(backward, costs.backward({d, 1}, unit, unit + 1));
    }
    sum += forward + backward;
  }
  return sum;
}

}  // namespace

double communication_free_bound(const BiPartitionCosts& costs) {
  if (costs.max_replicas() > 1)  // rounding must not make it too large
    return least_work(costs) / costs.num_devices() * (1 - 1e-9);
  double all = 0;
  for (int k = 0; k < costs.num_devices(); ++k)
    all = std::max(all, costs.forward({k, 1}, 0, costs.num_units()) +
                            costs.backward({k, 1}, 0, costs.num_units()));
  double low = 0, high = all / costs.num_devices();
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
