#include "pipewright/plan/method_switch.h"

#include <algorithm>

#include "pipewright/plan/lowering/lower.h"

namespace pipewright {

// An action depends on actions of its own microbatch alone, so those of the
// first minibatch, taken out of a valid order, are one.
Result<Plan> drained(const Plan& plan) {
  Plan result = plan;
  result.method = Method::Sync;
  if (!plan.schedule.is_asynchronous()) return result;
  const int minibatches = plan.schedule.sections().minibatches_outside + 1;
  Orders orders = plan.schedule.unrolled(minibatches);
  for (auto& order : orders) {
    std::erase_if(order, [&](const ComputeAction& action) {
      return action.microbatch.value >= plan.num_microbatches();
    });
    for (ComputeAction& action : order) action.joined = false;
  }
  PIPEWRIGHT_TRY(result.schedule,
                 Schedule::create(plan.num_stages(), plan.num_microbatches(),
                                  std::move(orders)));
  result.schedule_name = "";
  return result;
}

Result<Program> warm_up_program(const Plan& plan, const Profile& profile,
                                const Program& program) {
  PIPEWRIGHT_TRY(const Plan synchronous, drained(plan));
  PIPEWRIGHT_TRY(Program result, lower(synchronous, profile));
  for (std::size_t s = 0; s < result.delays.size(); ++s)
    result.delays[s].averaging = program.delays[s].averaging;
  return result;
}

void set_corrected(Program& program, bool corrected) {
  for (StageDelay& delay : program.delays) {
    delay.corrected = corrected;
    delay.averaging =
        corrected ? std::max(0.0, delay.forward - delay.backward) : 0;
  }
}

}  // namespace pipewright
