#include "pipewright/plan/lowering/operations.h"

#include <utility>

#include "pipewright/base/interruption.h"
#include "pipewright/plan/sample_range.h"

namespace pipewright {

void set_operations(Program& program, const Plan& plan) {
  program.workers.resize(plan.devices.size());
  for (std::size_t w = 0; w < plan.devices.size(); ++w)
    program.workers[w].device = plan.devices[w];
  program.operation_of.assign(plan.devices.size() * plan.stages.size(),
                              OperationId());
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    for (std::size_t j = 0; j < stage.workers.size(); ++j) {
      interruption_point();
      Operation operation;
      operation.stage = StageId(s);
      operation.worker = stage.workers[j];
      operation.forward = stage.forward;
      operation.backward = stage.backward;
      operation.recompute = stage.recompute;
      const SampleRange samples = samples_of(plan, stage, static_cast<int>(j));
      operation.first_sample = samples.first;
      operation.end_sample = samples.end;
      program.operation_of[operation.worker.index() * plan.stages.size() + s] =
          OperationId(program.operations.size());
      program.operations.push_back(std::move(operation));
    }
  }
}

}  // namespace pipewright
