#include "pipewright/planners/bounds/card_bound.h"

#include "pipewright/planners/bounds/pivots.h"

namespace pipewright {

double card_bound(const Problem& problem, const std::vector<KindTimes>& kinds,
                  double known) {
  if (is_asynchronous(problem.method)) return known;
  const Pivots pivots(problem, kinds);
  return least_step(known, [&](double T) { return pivots.fit_cards(T); });
}

}  // namespace pipewright
