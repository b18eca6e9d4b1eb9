#include "pipewright/planners/bounds/replica_bound.h"

#include "pipewright/planners/bounds/pivots.h"

namespace pipewright {

double replica_bound(const Problem& problem,
                     const std::vector<KindTimes>& kinds, double known) {
  const Pivots pivots(problem, kinds);
  return least_step(known, [&](double T) { return pivots.have_time(T); });
}

}  // namespace pipewright
