#include "pipewright/plan/gradient_buckets.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "pipewright/base/text.h"

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

// Actions of further buckets go; those of a stage's first one stand for all.
Orders merged_orders(const Orders& orders, const Plan& plan,
                     const std::vector<StageId>& stage_of) {
  Orders result(orders.size());
  for (std::size_t w = 0; w < orders.size(); ++w)
    for (ComputeAction action : orders[w]) {
      if (plan.stages[action.stage.index()].bucket) continue;
      action.stage = stage_of[action.stage.index()];
      result[w].push_back(action);
    }
  return result;
}

// The plan's schedule with other orders, for other stages.
template <typename Change>
Result<Schedule> changed_schedule(const Plan& plan, int num_stages,
                                  const Change& change) {
  ScheduleSections sections = plan.schedule.sections();
  for (Orders* orders :
       {&sections.prologue, &sections.body, &sections.epilogue})
    *orders = change(*orders);
  return Schedule::create(num_stages, plan.schedule.num_microbatches(),
                          sections);
}

}  // namespace

bool has_buckets(const Plan& plan) {
  return std::any_of(plan.stages.begin(), plan.stages.end(),
                     [](const Stage& stage) { return stage.bucket; });
}

int num_buckets(const Plan& plan) {
  if (!has_buckets(plan)) return 0;
  return static_cast<int>(std::count_if(
      plan.stages.begin(), plan.stages.end(),
      [](const Stage& stage) { return stage.workers.size() > 1; }));
}

std::vector<StageId> whole_stage_ids(const Plan& plan) {
  std::vector<StageId> ids;
  int whole = 0;
  for (const Stage& stage : plan.stages) {
    if (!stage.bucket) ++whole;
    ids.push_back(StageId(std::max(0, whole - 1)));
  }
  return ids;
}

int num_whole_stages(const Plan& plan) {
  return plan.stages.empty() ? 0 : whole_stage_ids(plan).back().value + 1;
}

std::string stage_count_text(const Plan& plan) {
  const std::string stages = counted(num_whole_stages(plan), "stage");
  return has_buckets(plan)
             ? stages + " (" + counted(num_buckets(plan), "bucket") + ")"
             : stages;
}

Result<Plan> without_buckets(const Plan& plan) {
  if (!has_buckets(plan)) return plan;
  Plan result = plan;
  result.stages.clear();
  std::vector<StageId> stage_of;
  for (const Stage& stage : plan.stages) {
    if (stage.bucket) {
      Stage& whole = result.stages.back();
      for (auto layers : {&Stage::forward, &Stage::backward})
        (whole.*layers)
            .insert((whole.*layers).end(), (stage.*layers).begin(),
                    (stage.*layers).end());
    } else {
      result.stages.push_back(stage);
    }
    stage_of.push_back(StageId(result.stages.size() - 1));
  }
  PIPEWRIGHT_TRY(
      result.schedule,
      changed_schedule(plan, result.num_stages(), [&](const Orders& orders) {
        return merged_orders(orders, plan, stage_of);
      }));
  return result;
}

Result<Plan> with_buckets(const Plan& plan, const Profile& profile,
                          Bytes bucket) {
  if (has_buckets(plan)) return plan;
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
      part.bucket = result.num_stages() - 1 > first;
    }
    ranges.push_back({first, result.num_stages()});
  }
  if (result.num_stages() == plan.num_stages()) return plan;
  PIPEWRIGHT_TRY(
      result.schedule,
      changed_schedule(plan, result.num_stages(), [&](const Orders& orders) {
        return cut_orders(orders, ranges);
      }));
  return result;
}

}  // namespace pipewright
