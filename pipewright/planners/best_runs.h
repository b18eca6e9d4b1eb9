// A row of items cut into a number of runs at least cost, by a table over
// (runs, items): what the planners that cut a chain of layers have in common.
// What a run costs is theirs.

#pragma once

#include <limits>
#include <vector>

namespace pipewright {

struct Runs {
  std::vector<int> ends;  // of each run; empty: there is no way
  double cost = std::numeric_limits<double>::infinity();
};

// arrive(r, i, cost) is what run r adds by beginning at item i to the cost of
// the runs before it (infinite: it cannot), join(r, i, j, arrived) what it then
// adds by ending before item j. Neither may lower the cost. Of equal ones the
// earliest beginning is taken.
template <typename Arrive, typename Join>
Runs best_runs(int items, int runs, const Arrive& arrive, const Join& join) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  std::vector<double> before(at(items) + 1, kNone);
  before[0] = 0;
  std::vector<std::vector<int>> begins;
  for (int r = 0; r < runs; ++r) {
    std::vector<double> now(at(items) + 1, kNone);
    std::vector<int>& begin = begins.emplace_back(at(items) + 1, -1);
    const int last = items - (runs - 1 - r);  // the others have one item each
    for (int i = r; i < last; ++i) {
      if (before[at(i)] == kNone) continue;
      const double arrived = arrive(r, i, before[at(i)]);
      if (arrived == kNone) continue;
      for (int j = i + 1; j <= last; ++j) {
        const double cost = join(r, i, j, arrived);
        if (cost < now[at(j)]) now[at(j)] = cost, begin[at(j)] = i;
      }
    }
    before = std::move(now);
  }
  Runs found;
  found.cost = before[at(items)];
  if (found.cost == kNone) return found;
  found.ends.resize(at(runs));
  int end = items;
  for (int r = runs; r-- > 0; end = begins[at(r)][at(end)])
    found.ends[at(r)] = end;
  return found;
}

}  // namespace pipewright
