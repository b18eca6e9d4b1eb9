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

// Weights, gradients and optimizer state, whatever the microbatch.
Bytes state_of(Bytes weights, const Problem& problem) {
  return weights * std::int64_t{problem.optimizer_words + 2};
}

Bytes largest_layer_state(const Problem& problem) {
  Bytes largest;
  for (const auto& layer : problem.profile->layers) {
    Bytes weights;
    for (const ParameterId id : layer.parameters)
      weights += problem.profile->parameters[id.index()].bytes;
    largest = std::max(largest, state_of(weights, problem));
  }
  return largest;
}

// Why no size of microbatches makes it fit; "" if one may.
std::string too_much_state(const Problem& problem) {
  Bytes all_memory, largest_memory, weights;
  for (int d = 0; d < problem.cluster->num_devices(); ++d) {
    const Bytes memory = problem.memory_of(DeviceId(d));
    all_memory += memory;
    largest_memory = std::max(largest_memory, memory);
  }
  for (const auto& parameter : problem.profile->parameters)
    weights += parameter.bytes;
  const std::string alone =
      "weights, gradients and optimizer state alone take ";
  if (const Bytes state = largest_layer_state(problem); state > largest_memory)
    return alone + to_text(state) + " for one layer";
  if (const Bytes state = state_of(weights, problem); state > all_memory)
    return alone + to_text(state) + ", the devices together have " +
           to_text(all_memory);
  return "";
}

// Nothing is smaller than a microbatch of one sample.
std::string way_to_fit(const Problem& problem) {
  const auto& sizes = problem.microbatches;
  if (const std::string why = too_much_state(problem); !why.empty())
    return "use devices with more memory: " + why;
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
