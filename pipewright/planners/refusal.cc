#include "pipewright/planners/refusal.h"

#include <algorithm>
#include <set>

#include "pipewright/base/text.h"
#include "pipewright/planners/cost_table.h"
#include "pipewright/planners/more_devices.h"

namespace pipewright {
namespace {

Bytes smallest_memory(const Problem& problem) {
  Bytes least = Bytes::max();
  for (int d = 0; d < problem.cluster->num_devices(); ++d)
    least = std::min(least, problem.memory_of(DeviceId(d)));
  return least;
}

// Memory of a run of layers with `behind` stages behind it.
struct StageMemory {
  const Problem& problem;
  const CostTable& costs;
  bool recompute;

  Bytes need(int first, int end, int behind) const {
    const std::int64_t microbatches =
        problem.minibatch / std::max(1, costs.microbatch());
    const std::int64_t in_flight =
        std::min<std::int64_t>(microbatches, behind + 1);
    const std::int64_t versions = problem.method == Method::Stash ||
                                          problem.method == Method::VerticalSync
                                      ? in_flight
                                  : problem.method == Method::TwoBw ? 2
                                                                    : 1;
    const Bytes weights =
        costs.parameters(first, end) * (versions + 1 + problem.optimizer_words);
    const Bytes kept = costs.kept(first, end);
    // What has come or is leaving, one microbatch each way at both ends.
    const Bytes buffers = (costs.crossing(first) + costs.crossing(end)) * 2;
    return weights + buffers +
           (recompute ? costs.crossing(first) * in_flight + kept
                      : kept * in_flight);
  }
};

std::string with_device(const Shortage& shortage) {
  return "stage " + std::to_string(shortage.stage) +
         (shortage.device.empty() ? "" : " (" + shortage.device + ")");
}

std::string about(const Problem& problem) {
  const int plain = devices_needed(problem, false);
  const int frugal = devices_needed(problem, true);
  const int now = problem.cluster->num_devices();
  std::vector<std::string> ways;
  if (frugal > now)
    ways.push_back("about " + std::to_string(frugal) +
                   " devices with recompute");
  if (plain > now)
    ways.push_back("about " + std::to_string(plain) + " devices" +
                   (frugal > now ? " without" : ""));
  if (ways.empty() && frugal == 0)
    return "some layer alone is too large: smaller microbatches, or devices "
           "with more memory";
  if (ways.empty())
    return "another planner may fit them, or smaller microbatches";
  return join(ways, ", or ") + " would do; or smaller microbatches";
}

}  // namespace

std::string remedy(const Problem& problem, const std::string& planner) {
  const std::optional<Enough> enough = enough_devices(problem, planner);
  if (!enough) return about(problem);
  return std::to_string(enough->devices) + " devices would do (--cluster " +
         enough->cluster + "), fewer would not; or smaller microbatches";
}

Shortage shortage_of(const Planned& planned, const Problem& problem) {
  Shortage worst;
  const Plan& plan = planned.plan;
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    for (WorkerId worker : plan.stages[s].workers) {
      const DeviceId device = plan.devices[worker.index()];
      const Bytes need = planned.estimate.memory[worker.index()];
      const Bytes limit = problem.memory_of(device);
      const double ratio = need / std::max(limit, Bytes(1));
      if (ratio > worst.ratio)
        worst = {ratio,
                 need,
                 limit,
                 static_cast<int>(s),
                 problem.cluster->devices()[device.index()].name,
                 plan.microbatch};
    }
  return worst;
}

int devices_needed(const Problem& problem, bool recompute) {
  if (problem.microbatches.empty()) return 0;
  const int smallest = *std::min_element(problem.microbatches.begin(),
                                         problem.microbatches.end());
  const auto costs =
      CostTable::create(*problem.profile, *problem.cluster, smallest);
  if (!costs) return 0;
  const StageMemory memory{problem, *costs, recompute};
  const Bytes limit = smallest_memory(problem);
  // From the last stage on: how much one keeps depends on those behind it, so
  // filling each to the brim needs the fewest.
  int stages = 0;
  for (int end = problem.profile->num_layers(); end > 0; ++stages) {
    int first = end;
    while (first > 0 && memory.need(first - 1, end, stages) <= limit) --first;
    if (first == end) return 0;
    end = first;
  }
  return stages;
}

Error nothing_fits(const Problem& problem, const std::string& planner,
                   const std::optional<Shortage>& plain,
                   const std::optional<Shortage>& recomputed) {
  const Shortage& told = plain ? *plain : *recomputed;
  const std::string whose = problem.any_planner ? "" : " of " + planner;
  std::string text = "no plan" + whose + " fits " + to_text(told.limit) + ": " +
                     with_device(told) + " needs " + to_text(told.need) +
                     " at best";
  if (plain && recomputed)
    text += ", " + to_text(recomputed->need) + " with recompute";
  else if (recomputed)
    text += ", with recompute";
  return bad_configuration(
      text + ", at microbatch " + std::to_string(told.microbatch),
      remedy(problem, planner));
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
