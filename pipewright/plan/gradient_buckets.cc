#include "pipewright/plan/gradient_buckets.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace pipewright {
namespace {

using Layers = std::vector<LayerId>;

// Stages with an action that is joined with another one.
std::set<StageId> joined_stages(const Schedule& schedule) {
  std::set<StageId> joined;
  const auto& sections = schedule.sections();
  for (const Orders* orders :
       {&sections.prologue, &sections.body, &sections.epilogue})
    for (const auto& order : *orders)
      for (std::size_t k = 0; k < order.size(); ++k)
        if (order[k].joined || (k > 0 && order[k - 1].joined))
          joined.insert(order[k].stage);
  return joined;
}

// In the order of the layers; the last one is summed first.
std::vector<Layers> buckets_of(const Layers& layers, const Profile& profile,
                               Bytes bucket) {
  std::vector<Layers> buckets;
  std::set<ParameterId> counted;
  Bytes bytes;
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    if (buckets.empty() || bytes >= bucket) {
      buckets.emplace_back();
      bytes = Bytes(0);
    }
    buckets.back().push_back(*layer);
    for (ParameterId id : profile.layers[layer->index()].parameters)
      if (counted.insert(id).second)
        bytes += profile.parameters[id.index()].bytes;
  }
  // The first layers may have no weights left to sum.
  if (buckets.size() > 1 && bytes == Bytes(0)) {
    const Layers rest = std::move(buckets.back());
    buckets.pop_back();
    buckets.back().insert(buckets.back().end(), rest.begin(), rest.end());
  }
  for (Layers& each : buckets) std::reverse(each.begin(), each.end());
  std::reverse(buckets.begin(), buckets.end());
  return buckets;
}

// Stages of the result that a stage becomes.
struct StageRange {
  int first = 0, end = 0;
};

bool goes_up(ComputeKind kind) {
  return kind == ComputeKind::Forward || kind == ComputeKind::Recompute;
}

Orders cut_orders(const Orders& orders, const std::vector<StageRange>& ranges) {
  Orders result(orders.size());
  for (std::size_t w = 0; w < orders.size(); ++w)
    for (const ComputeAction& action : orders[w]) {
      const StageRange& range = ranges[action.stage.index()];
      for (int i = 0; i < range.end - range.first; ++i) {
        ComputeAction part = action;
        part.stage =
            StageId(goes_up(action.kind) ? range.first + i : range.end - 1 - i);
        result[w].push_back(part);
      }
    }
  return result;
}

}  // namespace

Result<Plan> with_buckets(const Plan& plan, const Profile& profile,
                          Bytes bucket) {
  const std::set<StageId> joined = joined_stages(plan.schedule);
  Plan result = plan;
  result.stages.clear();
  std::vector<StageRange> ranges;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    const bool is_whole = stage.workers.size() < 2 || stage.recompute ||
                          stage.forward != stage.backward ||
                          joined.count(StageId(s)) > 0;
    const int first = result.num_stages();
    for (const Layers& layers :
         is_whole ? std::vector<Layers>{stage.forward}
                  : buckets_of(stage.forward, profile, bucket)) {
      Stage& part = result.stages.emplace_back(stage);
      part.forward = layers;
      part.backward = is_whole ? stage.backward : layers;
    }
    ranges.push_back({first, result.num_stages()});
  }
  if (result.num_stages() == plan.num_stages()) return plan;
  ScheduleSections sections = plan.schedule.sections();
  for (Orders* orders :
       {&sections.prologue, &sections.body, &sections.epilogue})
    *orders = cut_orders(*orders, ranges);
  PIPEWRIGHT_TRY(result.schedule,
                 Schedule::create(result.num_stages(),
                                  plan.schedule.num_microbatches(), sections));
  result.schedule_name = "";
  return result;
}

}  // namespace pipewright
