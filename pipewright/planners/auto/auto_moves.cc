#include "pipewright/planners/auto/auto_moves.h"

#include <algorithm>

#include "pipewright/planners/auto/auto_shapes.h"

namespace pipewright {
namespace {

using Pipelines = std::vector<Pipeline>;

// Of a deep pipeline only the slowest stages are changed.
constexpr std::size_t kMaxStages = 12;

std::vector<std::size_t> stages_to_change(const Pipeline& pipeline,
                                          const AutoCosts& costs) {
  std::vector<std::size_t> stages;
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) stages.push_back(s);
  if (stages.size() <= kMaxStages) return stages;
  std::stable_sort(stages.begin(), stages.end(),
                   [&](std::size_t a, std::size_t b) {
                     return costs.load(pipeline, a) > costs.load(pipeline, b);
                   });
  stages.resize(kMaxStages);
  std::sort(stages.begin(), stages.end());
  return stages;
}

Pipelines other_microbatches(const Pipeline& pipeline, const AutoCosts& costs) {
  Pipelines moves;
  for (int microbatch : costs.problem().microbatches) {
    if (microbatch == pipeline.microbatch) continue;
    moves.push_back(pipeline);
    moves.back().microbatch = microbatch;
  }
  return moves;
}

Pipelines other_recompute(const Pipeline& pipeline, const AutoCosts& costs) {
  Pipelines moves;
  for (std::size_t s : stages_to_change(pipeline, costs)) {
    moves.push_back(pipeline);
    bool& recompute = moves.back().stages[s].recompute;
    recompute = !recompute;
  }
  for (bool recompute : {false, true}) {
    moves.push_back(pipeline);
    for (PipelineStage& stage : moves.back().stages)
      stage.recompute = recompute;
  }
  return moves;
}

int backward_end(const PipelineStage& stage) {
  return stage.backward_end < 0 ? stage.end : stage.backward_end;
}

// Moves the forward and the backward cut together; if they differ, also each
// alone.
void add_moved_cut(const Pipeline& pipeline, std::size_t s, int by,
                   Pipelines& moves) {
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
      moves.push_back(std::move(moved));
  }
}

Pipelines moved_cuts(const Pipeline& pipeline, const AutoCosts& costs) {
  Pipelines moves;
  const std::size_t last = pipeline.stages.size() - 1;
  std::vector<bool> cut(pipeline.stages.size(), false);
  for (std::size_t s : stages_to_change(pipeline, costs)) {
    cut[s] = true;
    if (s > 0) cut[s - 1] = true;
  }
  for (std::size_t s = 0; s < last; ++s)
    for (int by : {-1, 1, -2, 2, -5, 5})
      if (cut[s]) add_moved_cut(pipeline, s, by, moves);
  return moves;
}

bool has_replicas(const Pipeline& pipeline) {
  return std::any_of(
      pipeline.stages.begin(), pipeline.stages.end(),
      [](const PipelineStage& stage) { return stage.devices.size() > 1; });
}

Pipelines moved_replicas(const Pipeline& pipeline, const AutoCosts& costs) {
  Pipelines moves;
  if (pipeline.stages_per_worker > 1) return moves;
  const auto stages = stages_to_change(pipeline, costs);
  for (std::size_t from : stages)
    for (std::size_t to : stages) {
      if (from == to || pipeline.stages[from].devices.size() < 2) continue;
      Pipeline moved = pipeline;
      auto& source = moved.stages[from].devices;
      auto& target = moved.stages[to].devices;
      // The nearer end, so that neighbouring devices stay neighbours.
      const auto device = from < to ? source.end() - 1 : source.begin();
      target.insert(from < to ? target.begin() : target.end(), *device);
      source.erase(device);
      moves.push_back(std::move(moved));
    }
  if (has_replicas(pipeline)) {
    moves.push_back(pipeline);
    Replication& way = moves.back().replication;
    way = way == Replication::Split ? Replication::Rotate : Replication::Split;
  }
  return moves;
}

bool are_interchangeable(const Cluster& cluster) {
  return cluster.kinds().size() == 1 && cluster.links().size() <= 1;
}

// Swaps the devices of two stages. Devices of one kind in one host are equal.
Pipelines swapped_devices(const Pipeline& pipeline, const AutoCosts& costs) {
  Pipelines moves;
  const Cluster& cluster = *costs.problem().cluster;
  if (pipeline.stages_per_worker > 1 || are_interchangeable(cluster))
    return moves;
  const auto stages = stages_to_change(pipeline, costs);
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
      moves.push_back(std::move(swapped));
    }
  return moves;
}

Pipelines joined_and_split(const Pipeline& pipeline, const AutoCosts& costs) {
  Pipelines moves;
  if (pipeline.stages_per_worker > 1) return moves;
  for (std::size_t s : stages_to_change(pipeline, costs)) {
    if (s + 1 < pipeline.stages.size()) {
      Pipeline joined = pipeline;
      auto& devices = joined.stages[s + 1].devices;
      devices.insert(devices.begin(), joined.stages[s].devices.begin(),
                     joined.stages[s].devices.end());
      joined.stages.erase(joined.stages.begin() +
                          static_cast<std::ptrdiff_t>(s));
      moves.push_back(std::move(joined));
    }
    const auto& devices = pipeline.stages[s].devices;
    if (devices.size() < 2) continue;
    Pipeline split = pipeline;
    PipelineStage front = split.stages[s];
    const auto half = static_cast<std::ptrdiff_t>(devices.size() / 2);
    front.devices.assign(devices.begin(), devices.begin() + half);
    split.stages[s].devices.assign(devices.begin() + half, devices.end());
    split.stages.insert(split.stages.begin() + static_cast<std::ptrdiff_t>(s),
                        front);
    // The best new cut depends on all others.
    if (costs.set_ends(split)) moves.push_back(std::move(split));
  }
  return moves;
}

// The best cuts for the current devices.
Pipelines cut_again(const Pipeline& pipeline, const AutoCosts& costs) {
  Pipeline again = pipeline;
  if (!costs.set_ends(again)) return {};
  return {again};
}

}  // namespace

const std::vector<Move>& auto_moves() {
  static const std::vector<Move> kMoves = {
      with_other_schedule, other_microbatches, moved_cuts,
      moved_replicas,      cut_again,          other_recompute,
      joined_and_split,    swapped_devices};
  return kMoves;
}

}  // namespace pipewright
