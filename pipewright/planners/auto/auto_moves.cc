#include "pipewright/planners/auto/auto_moves.h"

#include <algorithm>

#include "pipewright/planners/auto/auto_shapes.h"

namespace pipewright {
namespace {

using Pipelines = std::vector<Pipeline>;

// Of a deep pipeline only the slowest stages are worth a look.
constexpr std::size_t kMostStages = 12;

std::vector<std::size_t> stages_to_touch(const Pipeline& pipeline,
                                         const AutoCosts& costs) {
  std::vector<std::size_t> stages;
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) stages.push_back(s);
  if (stages.size() <= kMostStages) return stages;
  std::stable_sort(stages.begin(), stages.end(),
                   [&](std::size_t a, std::size_t b) {
                     return costs.load(pipeline, a) > costs.load(pipeline, b);
                   });
  stages.resize(kMostStages);
  std::sort(stages.begin(), stages.end());
  return stages;
}

Pipelines other_microbatches(const Pipeline& pipeline, const AutoCosts& costs) {
  Pipelines made;
  for (int microbatch : costs.problem().microbatches) {
    if (microbatch == pipeline.microbatch) continue;
    made.push_back(pipeline);
    made.back().microbatch = microbatch;
  }
  return made;
}

Pipelines other_recompute(const Pipeline& pipeline, const AutoCosts& costs) {
  Pipelines made;
  for (std::size_t s : stages_to_touch(pipeline, costs)) {
    made.push_back(pipeline);
    bool& recompute = made.back().stages[s].recompute;
    recompute = !recompute;
  }
  for (bool recompute : {false, true}) {
    made.push_back(pipeline);
    for (PipelineStage& stage : made.back().stages) stage.recompute = recompute;
  }
  return made;
}

int backward_end(const PipelineStage& stage) {
  return stage.backward_end < 0 ? stage.end : stage.backward_end;
}

// Both directions' cuts move together, or where they are apart also singly.
void add_moved_cut(const Pipeline& pipeline, std::size_t s, int by,
                   Pipelines& made) {
  const bool apart = pipeline.stages[s].backward_end >= 0;
  for (int which = 0; which < (apart ? 3 : 1); ++which) {
    Pipeline moved = pipeline;
    PipelineStage& stage = moved.stages[s];
    if (which != 1) stage.end += by;
    if (apart && which != 2) stage.backward_end += by;
    const PipelineStage& next = moved.stages[s + 1];
    const int first = s == 0 ? 0 : moved.stages[s - 1].end;
    const int backward_first = s == 0 ? 0 : backward_end(moved.stages[s - 1]);
    const int backward = backward_end(stage);
    if (stage.end > first && stage.end < next.end &&
        backward >= backward_first && backward <= backward_end(next))
      made.push_back(std::move(moved));
  }
}

Pipelines moved_cuts(const Pipeline& pipeline, const AutoCosts& costs) {
  Pipelines made;
  const std::size_t last = pipeline.stages.size() - 1;
  std::vector<bool> cut(pipeline.stages.size(), false);
  for (std::size_t s : stages_to_touch(pipeline, costs)) {
    cut[s] = true;
    if (s > 0) cut[s - 1] = true;
  }
  for (std::size_t s = 0; s < last; ++s)
    for (int by : {-1, 1, -2, 2, -5, 5})
      if (cut[s]) add_moved_cut(pipeline, s, by, made);
  return made;
}

bool has_replicas(const Pipeline& pipeline) {
  return std::any_of(
      pipeline.stages.begin(), pipeline.stages.end(),
      [](const PipelineStage& stage) { return stage.devices.size() > 1; });
}

Pipelines moved_replicas(const Pipeline& pipeline, const AutoCosts& costs) {
  Pipelines made;
  if (pipeline.chunks > 1) return made;
  const auto stages = stages_to_touch(pipeline, costs);
  for (std::size_t from : stages)
    for (std::size_t to : stages) {
      if (from == to || pipeline.stages[from].devices.size() < 2) continue;
      Pipeline moved = pipeline;
      auto& giver = moved.stages[from].devices;
      auto& taker = moved.stages[to].devices;
      // The nearer end, so that neighbours stay neighbours.
      const auto given = from < to ? giver.end() - 1 : giver.begin();
      taker.insert(from < to ? taker.begin() : taker.end(), *given);
      giver.erase(given);
      made.push_back(std::move(moved));
    }
  if (has_replicas(pipeline)) {
    made.push_back(pipeline);
    Replication& way = made.back().replication;
    way = way == Replication::Split ? Replication::Rotate : Replication::Split;
  }
  return made;
}

bool are_interchangeable(const Cluster& cluster) {
  return cluster.kinds().size() == 1 && cluster.links().size() <= 1;
}

// The devices of two stages change places; those of one kind in one host are
// alike.
Pipelines swapped_devices(const Pipeline& pipeline, const AutoCosts& costs) {
  Pipelines made;
  const Cluster& cluster = *costs.problem().cluster;
  if (pipeline.chunks > 1 || are_interchangeable(cluster)) return made;
  const auto stages = stages_to_touch(pipeline, costs);
  const auto place = [&](const PipelineStage& stage) {
    const Device& device = cluster.devices()[stage.devices.front().index()];
    return std::pair(device.kind, device.host);
  };
  for (std::size_t a : stages)
    for (std::size_t b : stages) {
      if (a >= b || (place(pipeline.stages[a]) == place(pipeline.stages[b]) &&
                     cluster.num_hosts() > 1))
        continue;
      Pipeline swapped = pipeline;
      std::swap(swapped.stages[a].devices.front(),
                swapped.stages[b].devices.front());
      made.push_back(std::move(swapped));
    }
  return made;
}

Pipelines joined_and_parted(const Pipeline& pipeline, const AutoCosts& costs) {
  Pipelines made;
  if (pipeline.chunks > 1) return made;
  for (std::size_t s : stages_to_touch(pipeline, costs)) {
    if (s + 1 < pipeline.stages.size()) {
      Pipeline joined = pipeline;
      auto& devices = joined.stages[s + 1].devices;
      devices.insert(devices.begin(), joined.stages[s].devices.begin(),
                     joined.stages[s].devices.end());
      joined.stages.erase(joined.stages.begin() +
                          static_cast<std::ptrdiff_t>(s));
      made.push_back(std::move(joined));
    }
    const auto& devices = pipeline.stages[s].devices;
    if (devices.size() < 2) continue;
    Pipeline parted = pipeline;
    PipelineStage front = parted.stages[s];
    const auto half = static_cast<std::ptrdiff_t>(devices.size() / 2);
    front.devices.assign(devices.begin(), devices.begin() + half);
    parted.stages[s].devices.assign(devices.begin() + half, devices.end());
    parted.stages.insert(parted.stages.begin() + static_cast<std::ptrdiff_t>(s),
                         front);
    // Where the new cut belongs depends on all others.
    if (costs.set_ends(parted)) made.push_back(std::move(parted));
  }
  return made;
}

// All cuts anew, for the devices as they are now.
Pipelines cut_anew(const Pipeline& pipeline, const AutoCosts& costs) {
  Pipeline anew = pipeline;
  if (!costs.set_ends(anew)) return {};
  return {anew};
}

}  // namespace

const std::vector<Move>& auto_moves() {
  static const std::vector<Move> kMoves = {
      with_other_schedule, other_microbatches, moved_cuts,
      moved_replicas,      cut_anew,           other_recompute,
      joined_and_parted,   swapped_devices};
  return kMoves;
}

}  // namespace pipewright
