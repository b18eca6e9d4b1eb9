#include "pipewright/planners/auto/auto_shapes.h"

#include <algorithm>

#include "pipewright/base/index.h"

namespace pipewright {
namespace {

// Which worker has which stage, with several stages per worker.
enum class Fold {
  None,
  Loop,        // stage s on worker s mod p
  Zigzag,      // 0 1 .. p-1 p-1 .. 1 0
  Consecutive  // 0 0 .. 1 1 ..
};

struct ScheduleShape {
  const char* name;
  int stages_per_worker;
  Fold fold;
  bool uses_times = false;
};

// Chimera is not tried: each of its stages is on two workers, each with half of
// the microbatches, which copies of a pipeline also achieve.
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
    {"async-deep", 2, Fold::Consecutive},
};
// For devices that run a forward and a backward at once.
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

std::size_t worker_of(std::size_t stage, std::size_t workers,
                      const ScheduleShape& shape) {
  if (shape.fold == Fold::Consecutive)
    return stage / at(shape.stages_per_worker);
  const std::size_t round = stage / workers, position = stage % workers;
  return shape.fold == Fold::Zigzag && round % 2 == 1 ? workers - 1 - position
                                                      : position;
}

// The pipeline's workers, in the order of their first stages, with another
// schedule. The caller sets cuts and recompute.
Pipeline folded(const Pipeline& pipeline, const ScheduleShape& shape) {
  std::vector<PipelineStage> workers;
  for (const PipelineStage& stage : pipeline.stages) {
    const auto same = [&](const PipelineStage& other) {
      return other.devices == stage.devices;
    };
    if (std::none_of(workers.begin(), workers.end(), same))
      workers.push_back(stage);
  }
  Pipeline folded = pipeline;
  folded.schedule = shape.name;
  folded.stages_per_worker = shape.stages_per_worker;
  folded.times.clear();
  folded.stages.clear();
  for (std::size_t s = 0; s < workers.size() * at(shape.stages_per_worker); ++s)
    folded.stages.push_back(workers[worker_of(s, workers.size(), shape)]);
  return folded;
}

// Equal replicas for every stage: neighbouring devices, or with `across` every
// stages-th device.
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

// Stages per worker of looped shapes: with more, sums of gradients overlap with
// more of the computation; with fewer, stages are more equal.
constexpr int kLoopedMicrobatches = 8;
const std::vector<int> kRounds = {6, 10};
const std::vector<int> kRoundsAlone = {24};

// The largest size with at least so many microbatches, or else the smallest.
int microbatch_of(const Problem& problem, int count) {
  int best = 0, smallest = problem.minibatch;
  for (int microbatch : problem.microbatches) {
    smallest = std::min(smallest, microbatch);
    if (problem.minibatch / microbatch >= count)
      best = std::max(best, microbatch);
  }
  return best > 0 ? best : smallest;
}

// C(n, k), or some number above 1e18 if it is larger.
double choose(int n, int k) {
  double ways = k > n ? 0 : 1;
  for (int i = 1; i <= k && ways < 1e18; ++i) ways *= double(n - k + i) / i;
  return ways;
}

// How many pipelines extend() adds: for k stages, k - 1 cuts and k ends of
// device ranges.
double num_pipelines(int layers, int devices) {
  double sum = 0;
  for (int k = 1; k <= std::min(layers, devices); ++k)
    sum += choose(layers - 1, k - 1) * choose(devices, k);
  return sum;
}

// Adds to `all` every pipeline that starts with `stages`.
void extend(const Problem& problem, std::vector<PipelineStage>& stages,
            std::vector<std::vector<PipelineStage>>& all) {
  const int layers = problem.profile->num_layers();
  const int first = stages.empty() ? 0 : stages.back().end;
  const int device =
      stages.empty() ? 0 : stages.back().devices.back().value + 1;
  if (first == layers) return all.push_back(stages);
  if (device == problem.cluster->num_devices()) return;
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
      const int max_replicas = std::max(first, devices - first);
      if (2 * first == devices || max_replicas > microbatch) continue;
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

std::vector<Pipeline> looped_shapes(const AutoCosts& costs) {
  const Problem& problem = costs.problem();
  const int devices = problem.cluster->num_devices();
  std::vector<Pipeline> shapes;
  if (is_asynchronous(problem.method)) return shapes;
  for (int workers = 1; workers <= devices; ++workers) {
    if (devices % workers != 0) continue;
    const int microbatch =
        microbatch_of(problem, workers == 1 ? 1 : kLoopedMicrobatches);
    if (devices / workers > microbatch) continue;
    const Pipeline plain = shape_of(problem, workers, false, microbatch);
    for (int rounds : workers == 1 ? kRoundsAlone : kRounds) {
      Pipeline looped = folded(plain, {"looped-bfs", rounds, Fold::Loop});
      if (costs.set_ends(looped)) shapes.push_back(std::move(looped));
    }
  }
  return shapes;
}

std::vector<Pipeline> with_recompute(std::vector<Pipeline> pipelines) {
  for (Pipeline& pipeline : pipelines)
    for (PipelineStage& stage : pipeline.stages) stage.recompute = true;
  return pipelines;
}

std::vector<Pipeline> every_pipeline(const AutoCosts& costs,
                                     std::size_t max_count) {
  const Problem& problem = costs.problem();
  const std::vector<ScheduleShape> schedules = schedules_of(problem);
  std::vector<Pipeline> pipelines;
  const double variants =
      static_cast<double>(schedules.size() * problem.microbatches.size());
  if (num_pipelines(problem.profile->num_layers(),
                    problem.cluster->num_devices()) *
          variants >
      static_cast<double>(max_count))
    return pipelines;
  std::vector<PipelineStage> stages;
  std::vector<std::vector<PipelineStage>> all;
  extend(problem, stages, all);
  for (const auto& each : all)
    for (const ScheduleShape& shape : schedules)
      for (int microbatch : problem.microbatches)
        for (bool recompute : {false, true}) {
          if (shape.stages_per_worker > 1) continue;
          Pipeline pipeline;
          pipeline.stages = each;
          pipeline.schedule = shape.name;
          pipeline.microbatch = microbatch;
          for (PipelineStage& stage : pipeline.stages)
            stage.recompute = recompute;
          if (shape.uses_times) costs.set_times(pipeline);
          pipelines.push_back(std::move(pipeline));
        }
  return pipelines;
}

std::vector<Pipeline> rescheduled(const Pipeline& pipeline,
                                  const AutoCosts& costs) {
  std::vector<Pipeline> others = with_other_schedule(pipeline, costs);
  if (pipeline.num_workers() < 2) return others;
  for (const ScheduleShape& shape : schedules_of(costs.problem())) {
    if (shape.stages_per_worker == pipeline.stages_per_worker) continue;
    Pipeline other = folded(pipeline, shape);
    if (!costs.set_ends(other)) continue;
    if (shape.uses_times) costs.set_times(other);
    others.push_back(std::move(other));
  }
  return others;
}

std::vector<Pipeline> with_other_schedule(const Pipeline& pipeline,
                                          const AutoCosts& costs) {
  std::vector<Pipeline> others;
  if (pipeline.num_workers() < 2) return others;
  for (const ScheduleShape& shape : schedules_of(costs.problem())) {
    if (shape.stages_per_worker != pipeline.stages_per_worker ||
        shape.name == pipeline.schedule)
      continue;
    const bool is_folded = pipeline.stages_per_worker > 1;
    Pipeline other = is_folded ? folded(pipeline, shape) : pipeline;
    other.schedule = shape.name;
    other.times.clear();
    if (is_folded)
      for (std::size_t s = 0; s < other.stages.size(); ++s) {
        other.stages[s].end = pipeline.stages[s].end;
        other.stages[s].recompute = pipeline.stages[s].recompute;
      }
    if (shape.uses_times) costs.set_times(other);
    others.push_back(std::move(other));
  }
  return others;
}

}  // namespace pipewright
