// Costs that are given, not measured: what operations take is said, a transfer
// takes the same time whatever its bytes, sums and steps take none. For
// schedules without a model, and for what depends on a program's shape alone.

#pragma once

#include <functional>

#include "pipewright/simulate/costs.h"

namespace pipewright {

// Operations by what they take.
Costs given_costs(
    const Program& program,
    const std::function<Costs::OperationCost(const Operation&)>& cost_of,
    Seconds latency);

// Every stage alike: forward and each half of backward a second.
Costs equal_costs(const Program& program);

}  // namespace pipewright
