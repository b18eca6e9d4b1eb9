#include "pipewright/simulate/given_costs.h"

#include <limits>

namespace pipewright {

Costs given_costs(
    const Program& program,
    const std::function<Costs::OperationCost(const Operation&)>& cost_of,
    Seconds latency) {
  Costs costs;
  for (const Operation& operation : program.operations)
    costs.operations.push_back(cost_of(operation));
  Costs::TransferCost transfer;
  transfer.latency = latency;
  transfer.bandwidth = BytesPerSecond(std::numeric_limits<double>::infinity());
  costs.transfers.assign(program.transfers.size(), transfer);
  costs.reductions.resize(program.reductions.size());
  costs.blocking.assign(program.workers.size(), 0);
  return costs;
}

Costs equal_costs(const Program& program) {
  constexpr Seconds kOne(1), kTwo(2);
  return given_costs(
      program,
      [&](const Operation&) {
        return Costs::OperationCost{{kOne, kTwo, kOne, kOne, kOne}, Seconds(0)};
      },
      Seconds(0));
}

}  // namespace pipewright
