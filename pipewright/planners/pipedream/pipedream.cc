// PipeDream: Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for
// DNN Training", SOSP 2019, section 3.1, as in its published optimizer
// (github.com/msr-fiddle/pipedream), with activation transfers counted:
//
//   T(i..j, m) = (sum of times + 4 (m-1)/m w / B) / m     stage on m replicas
//   A(j, m)    = min over k, m' of max(A(k, m-m'), T(k..j, m'), 2 a_k / (B m'))
//
//   w  parameter bytes   a_k  bytes that cross the cut before layer k
//   B  bandwidth         m    workers, m' of them for the last stage
//
// Hosts are a second level, where the time of a range of layers is A of that
// range on all devices of a host. On that level, as in the optimizer, the
// gradient reduction of a single stage is divided by the devices of a host.
//
// Departures: a graph is a chain in its topological order; the optimizer
// enumerates antichains. Both the depth of 1F1B and twice that depth (-so) are
// simulated, as for the planners that it is compared with. Of the partitions
// with the smallest bottleneck, the optimizer takes any; we take the one whose
// slowest stage, without transfers, is fastest. Where a table over all layers
// would take too long, consecutive layers are grouped, and a plan says so.

#include "pipewright/planners/pipedream/pipedream.h"

#include <algorithm>
#include <cmath>

#include "pipewright/base/index.h"
#include "pipewright/base/infinity.h"
#include "pipewright/base/text.h"
#include "pipewright/planners/choice.h"
#include "pipewright/planners/cut_positions.h"
#include "pipewright/planners/planner_registry.h"
#include "pipewright/planners/time_limit.h"

namespace pipewright {
namespace {

constexpr double kMaxSteps = 1e9;      // about a second
constexpr double kMaxEntries = 2.5e7;  // some hundred MB
// Beyond that, layers are grouped until it takes about a tenth of a second.
constexpr double kMaxGroupedSteps = 1e8;
constexpr int kMinGroups = 32;

struct PlanCell {
  double time = kInfinity;
  int begin = -1;  // of the last stage; -1: there is only one stage
  int replicas = 0;
};

// One level: ranges of layers on 1..machines machines, which are devices or
// hosts.
class Level {
 public:
  Level(const CostTable& costs, int machines, double bandwidth, int within,
        PipeDreamParts parts)
      : costs_(costs),
        layers_(costs.num_layers()),
        machines_(machines),
        max_replicas_(parts.replicas ? machines : 1),
        bandwidth_(bandwidth),
        within_(within) {}
  virtual ~Level() = default;

  // Seconds of the range on one machine.
  virtual double work(int first, int end) const = 0;
  // A lower bound on the machine time of the range on any number of machines.
  virtual double least(int first, int end) const = 0;

  // The ranges that begin at `first`: [end * (machines + 1) + machines]. Only
  // partitions whose stages and transfers take at most `limit` count. Minimizes
  // the slowest of them, or with `stages_only` the slowest stage. With a
  // `target`, only cells that can be extended to that end on all machines.
  std::vector<PlanCell> row(int first, double limit, bool stages_only,
                            int target = -1) const {
    const int last_end = target < 0 ? layers_ : target;
    std::vector<PlanCell> cells((at(last_end) + 1) * at(machines_ + 1));
    int low = first + 1;
    for (int end = first + 1; end <= last_end; ++end) {
      PlanCell* last = &cells[at(end) * at(machines_ + 1)];
      const int max_machines =
          target < 0 || end == target
              ? machines_
              : machines_ - machines_for(least(end, target), limit);
      const double time = work(first, end);
      for (int m = machines_for(least(first, end), limit);
           m <= std::min(max_machines, max_replicas_); ++m) {
        const double alone = (time + sync(first, end, m) / within_) / m;
        if (alone <= limit) last[m] = {alone, -1, m};
      }
      while (low < end && machines_for(least(low, end), limit) >= machines_)
        ++low;
      for (int begin = low; begin < end; ++begin)
        extend(&cells[at(begin) * at(machines_ + 1)], last, begin, end,
               machines_for(least(first, begin), limit), max_machines, limit,
               stages_only);
    }
    return cells;
  }

  // The fastest slowest stage or transfer of the range on all machines. Tries
  // limits from the lower bound upwards, so that few partitions are visited.
  double bottleneck(int first, int end) const {
    double limit = least(first, end) / machines_;
    for (int attempt = 0; attempt < 24 && limit > 0; ++attempt, limit *= 1.2) {
      const auto cells = row(first, limit, false, end);
      const double found =
          cells[at(end) * at(machines_ + 1) + at(machines_)].time;
      if (found < kInfinity) return found;
    }
    return row(first, kInfinity, false,
               end)[at(end) * at(machines_ + 1) + at(machines_)]
        .time;
  }
  int machines() const { return machines_; }

 private:
  // The fewest machines that can do the work within the limit, at least one.
  // Allows for rounding.
  static int machines_for(double seconds, double limit) {
    if (seconds <= limit) return 1;
    return static_cast<int>(
        std::ceil(std::min(1e9, seconds / limit * (1 - 1e-12))));
  }

  double sync(int first, int end, int m) const {
    const auto bytes =
        static_cast<double>(costs_.parameters(first, end).value());
    return 4.0 * (m - 1) * bytes / (bandwidth_ * m);
  }

  // Adds a last stage begin..end-1 to every partition of the layers before it,
  // which take at least `front` machines.
  void extend(const PlanCell* before, PlanCell* last, int begin, int end,
              int front, int max_machines, double limit,
              bool stages_only) const {
    const double time = work(begin, end);
    const double transfer =
        2.0 * static_cast<double>(costs_.crossing(begin).value()) / bandwidth_;
    for (int r = machines_for(least(begin, end), limit);
         r <= std::min(max_machines - front, max_replicas_); ++r) {
      const double stage = (time + sync(begin, end, r)) / r;
      const double slower = std::max(stage, transfer / r);
      if (slower > limit) continue;
      const double load = stages_only ? stage : slower;
      for (int m = r + front; m <= max_machines; ++m) {
        const double slowest = std::max(before[m - r].time, load);
        if (slowest < last[m].time) last[m] = {slowest, begin, r};
      }
    }
  }

  const CostTable& costs_;
  int layers_, machines_, max_replicas_;
  double bandwidth_;
  int within_;
};

class DeviceLevel : public Level {
 public:
  DeviceLevel(const CostTable& costs, int kind, const Levels& levels,
              PipeDreamParts parts)
      : Level(costs, levels.inner, levels.inner_bandwidth.value(), 1, parts),
        table_(costs),
        kind_(kind) {}
  double work(int first, int end) const override {
    return table_.compute(kind_, first, end).value();
  }
  double least(int first, int end) const override { return work(first, end); }

 private:
  const CostTable& table_;
  int kind_;
};

class HostLevel : public Level {
 public:
  HostLevel(const CostTable& costs, const DeviceLevel& inside,
            const Levels& levels, const std::function<bool()>& is_over,
            PipeDreamParts parts)
      : Level(costs, levels.outer, levels.outer_bandwidth.value(), levels.inner,
              parts),
        inside_(inside),
        devices_(levels.inner) {
    const std::size_t width = at(levels.inner + 1);
    for (int first = 0; first < costs.num_layers(); ++first) {
      was_cut_short_ = is_over && is_over();
      if (was_cut_short_) return;
      const auto row = inside.row(first, kInfinity, false);
      auto& times = times_.emplace_back();
      for (int end = 0; end <= costs.num_layers(); ++end)
        times.push_back(row[at(end) * width + at(levels.inner)].time);
    }
  }
  double work(int first, int end) const override {
    return times_[at(first)][at(end)];
  }
  double least(int first, int end) const override {
    return inside_.least(first, end) / devices_;
  }
  bool was_cut_short() const { return was_cut_short_; }

 private:
  const DeviceLevel& inside_;
  int devices_;
  bool was_cut_short_ = false;
  std::vector<std::vector<double>> times_;
};

struct Split {
  std::vector<StageShape> stages;
  double bottleneck = kInfinity;
};

// The partition of first..end over all machines of a level.
Split level_split(const Level& level, int first, int end) {
  const std::size_t width = at(level.machines() + 1);
  const auto cell = [&](const std::vector<PlanCell>& row, int e, int m) {
    return row[at(e) * width + at(m)];
  };
  Split split;
  split.bottleneck = level.bottleneck(first, end);
  const auto row = level.row(first, split.bottleneck, true, end);
  int m = level.machines();
  while (end > first) {
    const PlanCell last = cell(row, end, m);
    split.stages.insert(split.stages.begin(), {end, last.replicas});
    end = last.begin < 0 ? first : last.begin;
    m -= last.replicas;
  }
  return split;
}

// The stages inside each of the hosts `host`..`host + hosts - 1`.
void append_stages(const std::vector<StageShape>& inside, int host, int hosts,
                   int devices_of_host, std::vector<PipelineStage>& stages) {
  int offset = 0;
  for (const StageShape& shape : inside) {
    PipelineStage stage;
    stage.end = shape.end;
    for (int h = host; h < host + hosts; ++h)
      for (int r = 0; r < shape.replicas; ++r)
        stage.devices.push_back(DeviceId(h * devices_of_host + offset + r));
    offset += shape.replicas;
    stages.push_back(std::move(stage));
  }
}

bool is_affordable(double layers, const Levels& levels, double max_steps) {
  const double ranges = layers * layers / 2;
  const double inner = levels.inner, outer = levels.outer;
  const double rows = levels.outer > 1 ? layers : 1;
  return ranges * (inner * inner * rows / 3 + outer * outer) <= max_steps &&
         layers * inner <= kMaxEntries && ranges <= kMaxEntries;
}

// 0: with any, the tables would be too large.
int max_layer_groups(int layers, const Levels& levels, PipeDreamParts parts) {
  const int devices = parts.replicas ? 0 : levels.inner * levels.outer;
  int groups = layers;
  while (groups > 0 && !is_affordable(groups, levels, kMaxGroupedSteps))
    groups -= (groups + 15) / 16;
  return groups < std::max(kMinGroups, devices) ? 0 : groups;
}

Error would_take_too_long(const CostTable& costs, const Levels& levels) {
  return bad_configuration(
      "pipedream would take too long for " +
          std::to_string(costs.num_layers()) + " layers and " +
          std::to_string(levels.inner * levels.outer) + " devices",
      "choose another planner");
}

class PipeDreamPlanner : public Planner {
 public:
  explicit PipeDreamPlanner(PipeDreamParts parts) : parts_(parts) {}

  std::string name() const override { return "pipedream"; }
  std::string summary() const override {
    return "the fastest slowest stage, with replicas, level by level";
  }
  std::string source() const override {
    return "PipeDream: Generalized Pipeline Parallelism for DNN Training, "
           "SOSP 2019";
  }
  PlanningEffort effort() const override { return PlanningEffort::Quadratic; }

  Result<Planned> plan(const Problem& problem) const override {
    const Levels levels = levels_of(*problem.cluster);
    const int kind = leading_kind(*problem.cluster);
    return best_over_sizes(
        problem, name(),
        [&](const CostTable& costs, Choice& choice) -> Result<void> {
          const auto partition = pipedream_partition(costs, kind, levels,
                                                     problem.is_over_, parts_);
          if (!partition)
            return problem.is_interrupted()
                       ? ended_before(problem, "pipedream was done")
                       : partition.error();
          consider(*partition, costs.microbatch(), problem, choice);
          return {};
        });
  }

 private:
  // PipeDream's replicas take turns. If there are too few microbatches for
  // that, they split each microbatch. More microbatches in flight (-so) hide
  // slow links.
  static void consider(const PipeDreamPartition& partition, int microbatch,
                       const Problem& problem, Choice& choice) {
    Pipeline pipeline;
    pipeline.microbatch = microbatch;
    pipeline.stages = partition.stages;
    pipeline.layer_groups = partition.layer_groups;
    const Seconds promised =
        partition.bottleneck * (problem.minibatch / microbatch);
    for (const char* end : {"", "-so"})
      for (Replication way : {Replication::Rotate, Replication::Split}) {
        pipeline.schedule =
            std::string(is_asynchronous(problem.method) ? "async-" : "") +
            "1f1b" + end;
        pipeline.replication = way;
        choice.consider(pipeline, {partition.bottleneck, promised});
      }
  }

  PipeDreamParts parts_;
};

Result<void> check_straight(const CostTable& costs, const Levels& levels,
                            PipeDreamParts parts) {
  const int devices = levels.inner * levels.outer;
  if (parts.replicas || devices <= costs.num_layers()) return {};
  return bad_configuration("pipedream without replicas needs " +
                               std::to_string(devices) + " layers, and has " +
                               std::to_string(costs.num_layers()),
                           "use fewer devices");
}

Result<PipeDreamPartition> partition_of(const CostTable& costs, int kind,
                                        const Levels& levels,
                                        const std::function<bool()>& is_over,
                                        PipeDreamParts parts) {
  if (auto fine = check_straight(costs, levels, parts); !fine)
    return fine.error();
  PipeDreamPartition partition;
  const DeviceLevel devices(costs, kind, levels, parts);
  const int layers = costs.num_layers();
  if (levels.outer == 1) {
    const Split split = level_split(devices, 0, layers);
    partition.bottleneck = Seconds(split.bottleneck);
    append_stages(split.stages, 0, 1, levels.inner, partition.stages);
    return partition;
  }
  const HostLevel hosts(costs, devices, levels, is_over, parts);
  if (hosts.was_cut_short())
    return bad_configuration("the budget ended before pipedream was done",
                             "give a larger --budget");
  const Split split = level_split(hosts, 0, layers);
  partition.bottleneck = Seconds(split.bottleneck);
  int first = 0, host = 0;
  for (const StageShape& shape : split.stages) {
    append_stages(level_split(devices, first, shape.end).stages, host,
                  shape.replicas, levels.inner, partition.stages);
    first = shape.end;
    host += shape.replicas;
  }
  return partition;
}

}  // namespace

Result<PipeDreamPartition> pipedream_partition(
    const CostTable& costs, int kind, const Levels& levels,
    const std::function<bool()>& is_over, PipeDreamParts parts) {
  const int layers = costs.num_layers();
  if (is_affordable(layers, levels, kMaxSteps))
    return partition_of(costs, kind, levels, is_over, parts);
  const int groups = max_layer_groups(layers, levels, parts);
  if (groups == 0) return would_take_too_long(costs, levels);
  const std::vector<int> positions = cut_positions(costs, kind, groups);
  PIPEWRIGHT_TRY(
      PipeDreamPartition partition,
      partition_of(costs.grouped(positions), kind, levels, is_over, parts));
  for (PipelineStage& stage : partition.stages)
    stage.end = positions[at(stage.end)];
  partition.layer_groups = layer_groups(positions);
  return partition;
}

std::unique_ptr<Planner> pipedream_planner(PipeDreamParts parts) {
  return std::make_unique<PipeDreamPlanner>(parts);
}

std::unique_ptr<Planner> pipedream_planner() {
  return pipedream_planner(PipeDreamParts());
}

}  // namespace pipewright
