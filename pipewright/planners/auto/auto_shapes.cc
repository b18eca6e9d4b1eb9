#include "pipewright/planners/auto/auto_shapes.h"

#include <algorithm>

#include "pipewright/base/index.h"

namespace pipewright {
namespace {

// How stages come back to the workers.
enum class Fold {
  None,
  Loop,    // stage s on worker s mod p
  Zigzag,  // 0 1 .. p-1 p-1 .. 1 0
  Run      // 0 0 .. 1 1 ..
};

struct ScheduleShape {
  const char* name;
  int chunks;
  Fold fold;
  bool looks_at_times = false;
};

// Chimera is left out: each of its stages is on two workers, which halves the
// microbatches of both; copies of a pipeline do the same without its order.
constexpr ScheduleShape kSynchronous[] = {
    {"1f1b", 1, Fold::None},         {"1f1b-so", 1, Fold::None},
    {"gpipe", 1, Fold::None},        {"zb-h1", 1, Fold::None},
    {"zb-h2", 1, Fold::None},        {"zero-bubble", 1, Fold::None, true},
    {"spp-pe", 1, Fold::None, true}, {"spp-pe-capped", 1, Fold::None},
    {"interleaved", 2, Fold::Loop},  {"interleaved", 3, Fold::Loop},
    {"interleaved", 4, Fold::Loop},  {"looped-bfs", 2, Fold::Loop},
    {"looped-bfs", 4, Fold::Loop},   {"zb-v", 2, Fold::Zigzag},
    {"v-half", 2, Fold::Zigzag},     {"v-min", 2, Fold::Zigzag},
    {"dualpipev", 2, Fold::Zigzag},  {"hanayo", 2, Fold::Zigzag},
    {"hanayo", 4, Fold::Zigzag},
};
constexpr ScheduleShape kAsynchronous[] = {
    {"async-1f1b", 1, Fold::None},
    {"async-1f1b-so", 1, Fold::None},
    {"async-chunks", 2, Fold::Run},
};
// Forward and backward share the device.
constexpr ScheduleShape kStreaming[] = {{"fbp", 1, Fold::None}};

std::vector<ScheduleShape> schedules_of(const Problem& problem) {
  std::vector<ScheduleShape> list;
  if (is_asynchronous(problem.method)) {
    list.assign(std::begin(kAsynchronous), std::end(kAsynchronous));
    return list;
  }
  list.assign(std::begin(kSynchronous), std::end(kSynchronous));
  const auto& kinds = problem.cluster->kinds();
  if (std::all_of(kinds.begin(), kinds.end(), [](const DeviceKind& kind) {
        return kind.execution == ExecutionClass::Async;
      }))
    list.insert(list.end(), std::begin(kStreaming), std::end(kStreaming));
  return list;
}

std::size_t worker_of(std::size_t stage, std::size_t workers, int chunks,
                      Fold fold) {
  if (fold == Fold::Run) return stage / at(chunks);
  const std::size_t round = stage / workers, place = stage % workers;
  return fold == Fold::Zigzag && round % 2 == 1 ? workers - 1 - place : place;
}

int workers_of(const Pipeline& pipeline) {
  return static_cast<int>(pipeline.stages.size()) / pipeline.chunks;
}

// The pipeline's workers, in the order in which a sample meets them first,
// under another schedule. Cuts and recompute are left to the caller.
Pipeline folded(const Pipeline& pipeline, const ScheduleShape& shape) {
  std::vector<PipelineStage> workers;
  for (const PipelineStage& stage : pipeline.stages) {
    const auto same = [&](const PipelineStage& other) {
      return other.devices == stage.devices;
    };
    if (std::none_of(workers.begin(), workers.end(), same))
      workers.push_back(stage);
  }
  Pipeline made = pipeline;
  made.schedule = shape.name;
  made.chunks = shape.chunks;
  made.times.clear();
  made.stages.clear();
  for (std::size_t s = 0; s < workers.size() * at(shape.chunks); ++s)
    made.stages.push_back(
        workers[worker_of(s, workers.size(), shape.chunks, shape.fold)]);
  return made;
}

Pipeline shape_of(const Problem& problem, int stages, bool across,
                  int microbatch) {
  const int devices = problem.cluster->num_devices();
  const int replicas = devices / stages;
  Pipeline pipeline;
  pipeline.microbatch = microbatch;
  if (is_asynchronous(problem.method)) pipeline.schedule = "async-1f1b";
  for (int s = 0; s < stages; ++s) {
    PipelineStage stage;
    for (int r = 0; r < replicas; ++r)
      stage.devices.push_back(
          DeviceId(across ? r * stages + s : s * replicas + r));
    pipeline.stages.push_back(std::move(stage));
  }
  return pipeline;
}

// C(n, k), or more than anyone counts to.
double choose(int n, int k) {
  double ways = k > n ? 0 : 1;
  for (int i = 1; i <= k && ways < 1e18; ++i) ways *= double(n - k + i) / i;
  return ways;
}

// How many ways extend() would find: of k stages k - 1 cuts, and as many ends
// of runs of devices.
double num_ways(int layers, int devices) {
  double ways = 0;
  for (int k = 1; k <= std::min(layers, devices); ++k)
    ways += choose(layers - 1, k - 1) * choose(devices, k);
  return ways;
}

// Stages so far, and all ways to go on.
void extend(const Problem& problem, std::vector<PipelineStage>& stages,
            std::vector<std::vector<PipelineStage>>& all) {
  const int layers = problem.profile->num_layers();
  const int first = stages.empty() ? 0 : stages.back().end;
  const int device =
      stages.empty() ? 0 : stages.back().devices.back().value + 1;
  if (first == layers) return all.push_back(stages);
  for (int end = first + 1; end <= layers; ++end) {
    PipelineStage stage;
    stage.end = end;
    for (int d = device; d < problem.cluster->num_devices(); ++d) {
      stage.devices.push_back(DeviceId(d));
      stages.push_back(stage);
      extend(problem, stages, all);
      stages.pop_back();
    }
  }
}

}  // namespace

std::vector<Pipeline> plain_shapes(const AutoCosts& costs) {
  const Problem& problem = costs.problem();
  const int devices = problem.cluster->num_devices();
  const bool hosts = problem.cluster->num_hosts() > 1;
  std::vector<Pipeline> shapes;
  for (int microbatch : problem.microbatches)
    for (int stages = 1; stages <= devices; ++stages) {
      const int replicas = devices / stages;
      if (devices % stages != 0 || replicas > microbatch) continue;
      for (bool across : {false, true}) {
        if (across && (!hosts || stages == 1 || replicas == 1)) continue;
        Pipeline shape = shape_of(problem, stages, across, microbatch);
        if (costs.set_ends(shape)) shapes.push_back(std::move(shape));
      }
    }
  return shapes;
}

std::vector<Pipeline> uneven_pairs(const AutoCosts& costs) {
  const Problem& problem = costs.problem();
  const int devices = problem.cluster->num_devices();
  std::vector<Pipeline> pairs;
  for (int microbatch : problem.microbatches)
    for (int first = 1; first < devices; ++first) {
      const int most = std::max(first, devices - first);
      if (2 * first == devices || most > microbatch) continue;
      Pipeline pair = shape_of(problem, 1, false, microbatch);
      std::vector<DeviceId>& all = pair.stages.front().devices;
      PipelineStage second;
      second.devices.assign(all.begin() + first, all.end());
      all.resize(at(first));
      pair.stages.push_back(std::move(second));
      if (costs.set_ends(pair)) pairs.push_back(std::move(pair));
    }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [&](const Pipeline& a, const Pipeline& b) {
                     return costs.busiest(a) < costs.busiest(b);
                   });
  return pairs;
}

std::vector<Pipeline> with_recompute(std::vector<Pipeline> pipelines) {
  for (Pipeline& pipeline : pipelines)
    for (PipelineStage& stage : pipeline.stages) stage.recompute = true;
  return pipelines;
}

std::vector<Pipeline> every_pipeline(const AutoCosts& costs, std::size_t most) {
  const Problem& problem = costs.problem();
  const std::vector<ScheduleShape> schedules = schedules_of(problem);
  std::vector<Pipeline> made;
  if (num_ways(problem.profile->num_layers(), problem.cluster->num_devices()) *
          static_cast<double>(schedules.size() * problem.microbatches.size()) >
      static_cast<double>(most))
    return made;
  std::vector<PipelineStage> stages;
  std::vector<std::vector<PipelineStage>> all;
  extend(problem, stages, all);
  for (const auto& each : all)
    for (const ScheduleShape& shape : schedules)
      for (int microbatch : problem.microbatches)
        for (bool recompute : {false, true}) {
          if (shape.chunks > 1) continue;
          Pipeline pipeline;
          pipeline.stages = each;
          pipeline.schedule = shape.name;
          pipeline.microbatch = microbatch;
          for (PipelineStage& stage : pipeline.stages)
            stage.recompute = recompute;
          if (shape.looks_at_times) costs.set_times(pipeline);
          made.push_back(std::move(pipeline));
        }
  return made;
}

std::vector<Pipeline> rescheduled(const Pipeline& pipeline,
                                  const AutoCosts& costs) {
  std::vector<Pipeline> made = with_other_schedule(pipeline, costs);
  if (workers_of(pipeline) < 2) return made;
  for (const ScheduleShape& shape : schedules_of(costs.problem())) {
    if (shape.chunks == pipeline.chunks) continue;
    Pipeline other = folded(pipeline, shape);
    if (!costs.set_ends(other)) continue;
    if (shape.looks_at_times) costs.set_times(other);
    made.push_back(std::move(other));
  }
  return made;
}

std::vector<Pipeline> with_other_schedule(const Pipeline& pipeline,
                                          const AutoCosts& costs) {
  std::vector<Pipeline> made;
  if (workers_of(pipeline) < 2) return made;
  for (const ScheduleShape& shape : schedules_of(costs.problem())) {
    if (shape.chunks != pipeline.chunks || shape.name == pipeline.schedule)
      continue;
    Pipeline other = pipeline.chunks == 1 ? pipeline : folded(pipeline, shape);
    other.schedule = shape.name;
    other.times.clear();
    if (pipeline.chunks > 1)
      for (std::size_t s = 0; s < other.stages.size(); ++s) {
        other.stages[s].end = pipeline.stages[s].end;
        other.stages[s].recompute = pipeline.stages[s].recompute;
      }
    if (shape.looks_at_times) costs.set_times(other);
    made.push_back(std::move(other));
  }
  return made;
}

}  // namespace pipewright
