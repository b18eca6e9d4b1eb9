// Cuts a chain of items into a number of stages at the smallest cost, by a
// dynamic program over (stages, items). For the planners that cut a chain of
// layers; they define what a stage costs.

#pragma once

#include <vector>

#include "pipewright/base/index.h"
#include "pipewright/base/infinity.h"

namespace pipewright {

struct Cuts {
  std::vector<int> ends;  // of each stage; empty: not possible
  double cost = kInfinity;
};

// arrive(s, i, cost) is the cost of the stages before s together with starting
// stage s at item i (infinite: not possible); join(s, i, j, arrived) is that
// cost together with ending the stage before item j. Neither may lower the
// cost. Of equal cuts the earliest are taken.
template <typename Arrive, typename Join>
Cuts best_cuts(int items, int stages, const Arrive& arrive, const Join& join) {
  std::vector<double> before(at(items + 1), kInfinity);
  before[0] = 0;
  std::vector<std::vector<int>> begins;
  for (int s = 0; s < stages; ++s) {
    std::vector<double> now(at(items + 1), kInfinity);
    std::vector<int>& begin = begins.emplace_back(at(items + 1), -1);
    const int last = items - (stages - 1 - s);  // leaves one item per stage
    for (int i = s; i < last; ++i) {
      if (before[at(i)] == kInfinity) continue;
      const double arrived = arrive(s, i, before[at(i)]);
      if (arrived == kInfinity) continue;
      for (int j = i + 1; j <= last; ++j) {
        const double cost = join(s, i, j, arrived);
        if (cost < now[at(j)]) now[at(j)] = cost, begin[at(j)] = i;
      }
    }
    before = std::move(now);
  }
  Cuts cuts;
  cuts.cost = before[at(items)];
  if (cuts.cost == kInfinity) return cuts;
  cuts.ends.resize(at(stages));
  int end = items;
  for (int s = stages; s-- > 0; end = begins[at(s)][at(end)])
    cuts.ends[at(s)] = end;
  return cuts;
}

}  // namespace pipewright
