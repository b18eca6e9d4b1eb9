#include "pipewright/runtime/training/requested_settings.h"

#include <algorithm>

#include "pipewright/runtime/training/group_settings.h"

namespace pipewright {
namespace {

// A pipeline that is never drained has no state before a step to go back to.
Result<void> check_policy(const TrainRequest& request) {
  if (request.not_finite == NotFinitePolicy::Stop ||
      request.program.minibatches_outside == 0)
    return {};
  return bad_configuration(
      "a step can be repeated or skipped only where every step is "
      "synchronous; " +
          to_text(request.plan.method) + " trains several at a time",
      "use --not-finite stop, or a plan of the method sync");
}

}  // namespace

std::int64_t warm_up_steps(const TrainRequest& request, std::int64_t total) {
  return std::min(request.method.warm_up_steps, total);
}

Result<TrainingSettings> requested_settings(const Model& model,
                                            const TrainRequest& request,
                                            std::int64_t total) {
  if (auto good = check_policy(request); !good) return good.error();
  TrainingSettings result;
  result.seed = request.seed;
  result.always_remembers = request.not_finite != NotFinitePolicy::Stop;
  PIPEWRIGHT_TRY(result.optimizer, make_optimizer(request.optimizer));
  PIPEWRIGHT_TRY(result.groups, group_settings(model, request, total));
  result.max_norm = request.max_norm;
  result.may_record = request.may_record;
  result.learning_rate = [rate = request.rate, total](std::int64_t step) {
    return rate.at(step, total);
  };
  const MethodSettings& method = request.method;
  const std::int64_t warm_up = warm_up_steps(request, total);
  result.rescheduling_start = warm_up;
  result.rescheduling_steps =
      method.rescheduling_steps >= 0
          ? method.rescheduling_steps
          : std::max<std::int64_t>(1, (total - warm_up) / 4);
  result.correction_decay = method.correction_decay;
  return result;
}

}  // namespace pipewright
