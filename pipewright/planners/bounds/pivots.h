// The layers of the bounds on replicas and cards (replica_bound.h,
// card_bound.h) together: whether a step can be so short.

#pragma once

#include <functional>
#include <vector>

#include "pipewright/planners/bounds/pivot.h"

namespace pipewright {

class Pivots {
 public:
  // Those with the most parameters. The arguments must outlive it.
  Pivots(const Problem& problem, const std::vector<KindTimes>& kinds);
  Pivots(const Pivots&) = delete;
  Pivots& operator=(const Pivots&) = delete;

  // False: no plan has a step of T seconds, or less (replica_bound.h).
  bool have_time(double T) const;
  // The same by what their sums leave of each card (card_bound.h). Of
  // asynchronous methods it says nothing.
  bool fit_cards(double T) const;

 private:
  const PivotCosts costs_;
  const std::vector<Islands> kinds_of_islands_;
  std::vector<std::vector<Pivot>> pivots_;  // by kind of islands
};

// The shortest step that is allowed, or less; at least `known` seconds.
double least_step(double known, const std::function<bool(double T)>& allows);

}  // namespace pipewright
