// Costs that are given, not measured: a function gives the times of operations,
// every transfer takes the same time whatever its bytes, reductions take none.
// For schedules without a model, and where only a program's shape matters.

#pragma once

#include <functional>

#include "pipewright/simulate/costs.h"

namespace pipewright {

Costs given_costs(
    const Program& program,
    const std::function<Costs::OperationCost(const Operation&)>& cost_of,
    Seconds latency);

// Every stage alike: forward and each half of backward take one second.
Costs equal_costs(const Program& program);

}  // namespace pipewright
