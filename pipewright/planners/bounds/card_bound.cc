#include "pipewright/planners/bounds/card_bound.h"

namespace pipewright {

double card_bound(const Pivots& pivots, double known) {
  return least_step(known, [&](double T) { return pivots.fit_cards(T); });
}

}  // namespace pipewright
