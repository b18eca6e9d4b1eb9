#include "pipewright/report/simulated_plan.h"

#include <algorithm>

#include "pipewright/base/text.h"
#include "pipewright/plan/lowering/lower.h"
#include "pipewright/simulate/simulate.h"

namespace pipewright {
namespace {

constexpr std::int64_t kMaxReportedActions = 4'000'000;

Result<void> check_size(const Program& program) {
  std::int64_t actions = 0;
  const std::int64_t repetitions =
      program.minibatches_outside > 0 ? program.minibatches_outside + 4 : 1;
  for (const WorkerProgram& worker : program.workers)
    actions += std::ssize(worker.prologue) + std::ssize(worker.epilogue) +
               repetitions * std::ssize(worker.body);
  if (actions <= kMaxReportedActions) return {};
  return bad_configuration("the plan has " + with_thousands(actions) +
                               " actions; a report shows at most " +
                               with_thousands(kMaxReportedActions),
                           "use larger microbatches, or `simulate`");
}

}  // namespace

Result<SimulatedPlan> simulated_plan(const Plan& plan, const Problem& problem) {
  PIPEWRIGHT_TRY(Program program, lower(plan, *problem.profile));
  PIPEWRIGHT_TRY(ProgramFacts facts, validate(program));
  if (auto fine = check_size(program); !fine) return fine.error();
  PIPEWRIGHT_TRY(Costs costs,
                 costs_of(program, *problem.profile, *problem.cluster));
  Timeline timeline = simulate(program, costs);
  std::vector<PathPiece> path = critical_path(program, timeline);
  return SimulatedPlan{plan,
                       problem,
                       std::move(program),
                       std::move(facts),
                       std::move(costs),
                       std::move(timeline),
                       std::move(path)};
}

}  // namespace pipewright
