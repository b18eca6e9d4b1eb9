#include "pipewright/plan/program/repeated_steps.h"

#include <algorithm>

namespace pipewright {

std::string why_steps_differ(const Program& program,
                             const WorkerProgram& worker) {
  if (!worker.prologue.empty() || !worker.epilogue.empty())
    return "microbatches are under way between steps";
  for (const HeldWeights& held : worker.held)
    if (held.versions > 1) return "a worker keeps several versions of weights";
  for (const Transfer& transfer : program.transfers)
    if (transfer.is_keyed_by_version()) return "workers send weights";
  for (const Reduction& reduction : program.reductions)
    if (!reduction.is_norm) return "a stage has replicas or tied weights";
  return {};
}

bool repeats_steps(const Program& program) {
  return std::all_of(program.workers.begin(), program.workers.end(),
                     [&](const WorkerProgram& worker) {
                       return why_steps_differ(program, worker).empty();
                     });
}

}  // namespace pipewright
