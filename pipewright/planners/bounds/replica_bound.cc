#include "pipewright/planners/bounds/replica_bound.h"

namespace pipewright {

double replica_bound(const Pivots& pivots, double known) {
  return least_step(known, [&](double T) { return pivots.have_time(T); });
}

}  // namespace pipewright
