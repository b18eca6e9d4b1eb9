#include "pipewright/planners/refusal.h"

#include <algorithm>

#include "pipewright/base/text.h"
#include "pipewright/planners/devices_needed.h"
#include "pipewright/planners/fewest_devices.h"

namespace pipewright {
namespace {

std::string with_device(const Shortage& shortage) {
  return "stage " + std::to_string(shortage.stage) +
         (shortage.device.empty() ? "" : " (" + shortage.device + ")");
}

// Nothing is smaller than a microbatch of one sample.
std::string way_to_fit(const Problem& problem) {
  const auto& sizes = problem.microbatches;
  return std::find(sizes.begin(), sizes.end(), 1) == sizes.end()
             ? "use smaller microbatches"
             : "use devices with more memory";
}

std::string estimated_hint(const Problem& problem) {
  const int plain = devices_needed(problem, false);
  const int recomputed = devices_needed(problem, true);
  const int available = problem.cluster->num_devices();
  std::vector<std::string> ways;
  if (recomputed > available)
    ways.push_back("about " + std::to_string(recomputed) +
                   " devices with recompute");
  if (plain > available)
    ways.push_back("about " + std::to_string(plain) + " devices" +
                   (recomputed > available ? " without" : ""));
  if (ways.empty() && recomputed == 0)
    return "a single layer is too large: " + way_to_fit(problem);
  if (ways.empty()) return "try another planner, or " + way_to_fit(problem);
  return join(ways, ", or ") + " should be enough; or " + way_to_fit(problem);
}

}  // namespace

std::string more_devices_hint(const Problem& problem,
                              const std::string& planner) {
  const std::optional<FewestDevices> fewest = fewest_devices(problem, planner);
  if (!fewest) return estimated_hint(problem);
  return std::to_string(fewest->devices) + " devices are enough (--cluster " +
         fewest->cluster + "), fewer are not; or " + way_to_fit(problem);
}

Shortage shortage_of(const Planned& planned, const Problem& problem) {
  Shortage worst;
  const Plan& plan = planned.plan;
  for (int s = 0; s < plan.num_stages(); ++s)
    for (WorkerId worker : plan.stages[StageId(s).index()].workers) {
      const DeviceId device = plan.devices[worker.index()];
      const Bytes need = planned.estimate.memory[worker.index()];
      const Bytes limit = problem.memory_of(device);
      const double ratio = need / std::max(limit, Bytes(1));
      if (ratio > worst.ratio)
        worst = {ratio,
                 need,
                 limit,
                 s,
                 problem.cluster->devices()[device.index()].name,
                 plan.microbatch};
    }
  return worst;
}

Error nothing_fits(const Problem& problem, const std::string& planner,
                   const std::optional<Shortage>& plain,
                   const std::optional<Shortage>& recomputed) {
  const Shortage& shown = plain ? *plain : *recomputed;
  const std::string whose = problem.any_planner ? "" : " of " + planner;
  std::string text = "no plan" + whose + " fits " + to_text(shown.limit) +
                     ": " + with_device(shown) + " needs " +
                     to_text(shown.need) + " at best";
  if (plain && recomputed)
    text += ", " + to_text(recomputed->need) + " with recompute";
  else if (recomputed)
    text += ", with recompute";
  return bad_configuration(
      text + ", at microbatch " + std::to_string(shown.microbatch),
      more_devices_hint(problem, planner));
}

Error nothing_fits(const Problem& problem, const Planned& nearest) {
  std::optional<Shortage> recomputed;
  Planned again = nearest;
  for (Stage& stage : again.plan.stages) stage.recompute = true;
  if (auto estimate = problem.estimate(again.plan)) {
    again.estimate = *std::move(estimate);
    recomputed = shortage_of(again, problem);
  }
  return nothing_fits(problem, nearest.plan.planner,
                      shortage_of(nearest, problem), recomputed);
}

}  // namespace pipewright
