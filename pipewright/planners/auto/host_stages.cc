#include "pipewright/planners/auto/host_stages.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "pipewright/base/index.h"
#include "pipewright/base/infinity.h"
#include "pipewright/planners/auto/host_clock.h"
#include "pipewright/planners/bounds/islands.h"
#include "pipewright/planners/cost_table.h"
#include "pipewright/planners/cut_positions.h"

namespace pipewright {
namespace {

constexpr int kMaxHostCuts = 100;
constexpr int kReductionLimits = 10;      // values of R that are tried
constexpr double kReductionFactor = 0.8;  // from one to the next
constexpr int kHalvings = 9;
constexpr int kMinMicrobatches = 4, kMaxMicrobatches = 32;
constexpr int kTooManyHosts = 1 << 20;
constexpr int kMaxChanges = 40;
// The first hides slow links behind computation. The others also delay weight
// gradients, so that the first stage can sum its gradients sooner.
constexpr const char* kHostSchedules[] = {"1f1b-so", "zb-h1", "zb-h2"};

// A stage's end, as an index of a cut, and its hosts.
struct HostStage {
  int end = 0, hosts = 0;
};
using HostStages = std::vector<HostStage>;

struct HostShape {
  int microbatch = 0;
  const char* schedule = kHostSchedules[0];
  HostStages stages;
};

// What a group of hosts and the layers cost.
class HostCosts {
 public:
  HostCosts(const Problem& group, int copies, const Islands& islands,
            CostTable table)
      : group_(group),
        copies_(copies),
        islands_(islands),
        table_(std::move(table)),
        cuts_(cut_positions(table_, 0, kMaxHostCuts)),
        values_(values_of(*group.profile, table_.microbatch())) {
    for (int first = 0; first < last(); ++first) {
      exchanged_.emplace_back(cuts_.size(), 0.0);
      for (int end = first + 1; end <= last(); ++end)
        exchanged_.back()[at(end)] =
            exchanged(cuts_[at(first)], cuts_[at(end)]);
    }
  }

  int num_hosts() const { return islands_.count; }
  int last() const { return static_cast<int>(cuts_.size()) - 1; }

  // Seconds per step of one host per group for the layers between two cuts: to
  // compute them, or to send what crosses their ends.
  double load(int first, int end) const {
    const double compute =
        table_.compute(0, cuts_[at(first)], cuts_[at(end)]).value() /
        islands_.max_devices;
    const double bytes = exchanged_[at(first)][at(end)];
    return std::max(compute, bytes / islands_.outside) * group_.minibatch /
           table_.microbatch();
  }

  // Over the network cards; within one host it is not counted.
  double reduction(int first, int end, int hosts) const {
    const double k = static_cast<double>(hosts) * copies_;
    if (k < 2) return 0;
    const double r = k * islands_.max_devices;
    const auto bytes = static_cast<double>(
        table_.parameters(cuts_[at(first)], cuts_[at(end)]).value());
    return 2 * (r - 1) / r * bytes / islands_.outside +
           2 * (r - 1) * islands_.latency;
  }

  bool can_split(int microbatch, int hosts) const {
    return hosts * islands_.max_devices <= microbatch;
  }

  // The step, as far as host_clock.h knows.
  double predicted(const HostShape& shape) {
    std::vector<HostStageTimes> times;
    int first = 0;
    for (const HostStage& stage : shape.stages) {
      if (!can_split(shape.microbatch, stage.hosts)) return kInfinity;
      times.push_back(compute_times(shape.microbatch, first, stage));
      first = stage.end;
    }
    set_sending(shape, times);
    const Schedule* schedule = schedule_of(shape);
    return schedule ? host_clock(*schedule, times) : kInfinity;
  }

  Pipeline pipeline(const HostShape& shape) const {
    Pipeline pipeline;
    pipeline.microbatch = shape.microbatch;
    pipeline.schedule = shape.schedule;
    int device = 0;
    for (const HostStage& each : shape.stages) {
      PipelineStage stage;
      stage.end = cuts_[at(each.end)];
      for (int i = 0; i < each.hosts * islands_.max_devices; ++i)
        stage.devices.push_back(DeviceId(device++));
      pipeline.stages.push_back(std::move(stage));
    }
    return pipeline;
  }

 private:
  // What a layer makes for other layers, in their order.
  struct Value {
    int layer = 0;
    double bytes = 0;  // at the table's microbatch size
    std::vector<int> users;
  };

  static std::vector<Value> values_of(const Profile& profile, int microbatch) {
    const auto sizes = sizes_at(profile, microbatch, Outside::Extrapolate);
    const std::vector<LayerId> storage = profile.storages();
    std::vector<Value> values(profile.layers.size());
    for (std::size_t l = 0; l < values.size() && sizes; ++l) {
      values[l].layer = static_cast<int>(l);
      values[l].bytes = static_cast<double>((*sizes)[l].output.value());
      for (LayerId input : profile.layers[l].inputs)
        values[storage[input.index()].index()].users.push_back(
            static_cast<int>(l));
    }
    std::erase_if(values, [](const Value& v) { return v.users.empty(); });
    return values;
  }

  // Bytes that cross the ends of some layers in one direction, there or back.
  double exchanged(int first, int end) const {
    double bytes = 0;
    for (const Value& value : values_) {
      const auto is_inside = [&](int l) { return l >= first && l < end; };
      const bool made = is_inside(value.layer);
      if (made ? value.users.back() >= end
               : std::any_of(value.users.begin(), value.users.end(), is_inside))
        bytes += value.bytes;
    }
    return bytes;
  }

  // Sums over the layers before each cut, for one number of samples.
  struct Sums {
    std::vector<double> forward, input, weight, update;
  };

  // What crosses the card of one host of a stage, in bytes.
  struct Crossing {
    double out = 0, in = 0;
  };

  // A stage's messages are as slow as its own card, or the next stage's.
  void set_sending(const HostShape& shape,
                   std::vector<HostStageTimes>& times) const {
    const std::vector<Crossing> crossings = crossings_of(shape);
    const double rate =
        islands_.outside * table_.microbatch() / shape.microbatch;
    const auto seconds = [&](double bytes) {
      return bytes / rate + islands_.latency;
    };
    for (std::size_t s = 0; s + 1 < times.size(); ++s)
      times[s].send_forward =
          seconds(std::max(crossings[s].out, crossings[s + 1].in));
    for (std::size_t s = 1; s < times.size(); ++s)
      times[s].send_backward =
          seconds(std::max(crossings[s].in, crossings[s - 1].out));
  }

  // Of activations at the table's microbatch size; gradients cross the same way
  // back.
  std::vector<Crossing> crossings_of(const HostShape& shape) const {
    std::vector<Crossing> crossings(shape.stages.size());
    std::vector<std::size_t> stage_of;
    for (std::size_t s = 0; s < shape.stages.size(); ++s)
      stage_of.resize(at(cuts_[at(shape.stages[s].end)]), s);
    for (const Value& value : values_) {
      const std::size_t from = stage_of[at(value.layer)];
      std::size_t before = from;
      for (int user : value.users) {
        const std::size_t to = stage_of[at(user)];
        if (to == before) continue;
        crossings[from].out += value.bytes / shape.stages[from].hosts;
        crossings[to].in += value.bytes / shape.stages[to].hosts;
        before = to;
      }
    }
    return crossings;
  }

  HostStageTimes compute_times(int microbatch, int first,
                               const HostStage& stage) {
    const int replicas = stage.hosts * islands_.max_devices;
    const Sums& sums = sums_of((microbatch + replicas - 1) / replicas);
    const auto between = [&](const std::vector<double>& sum) {
      return sum[at(stage.end)] - sum[at(first)];
    };
    return {between(sums.forward),
            between(sums.input),
            between(sums.weight),
            0,
            0,
            reduction(first, stage.end, stage.hosts) + between(sums.update)};
  }

  const Sums& sums_of(int samples) {
    const auto [known, is_new] = sums_.try_emplace(samples);
    if (is_new) {
      const auto table =
          CostTable::create(*group_.profile, *group_.cluster, samples);
      Sums& sums = known->second;
      for (int cut : cuts_) {
        const Seconds input =
            table ? table->backward_input(0, 0, cut) : Seconds(0);
        sums.forward.push_back(table ? table->forward(0, 0, cut).value() : 0);
        sums.input.push_back(input.value());
        sums.weight.push_back(
            table ? (table->backward(0, 0, cut) - input).value() : 0);
        sums.update.push_back(table ? table->update(0, 0, cut).value() : 0);
      }
    }
    return known->second;
  }

  // Null if there is none.
  const Schedule* schedule_of(const HostShape& shape) {
    const std::tuple key(std::string(shape.schedule), shape.stages.size(),
                         shape.microbatch);
    const auto [known, is_new] = schedules_.try_emplace(key);
    if (is_new) {
      ScheduleRequest request;
      request.workers = static_cast<int>(shape.stages.size());
      request.microbatches = group_.minibatch / shape.microbatch;
      request.stages_per_worker = 1;
      if (auto made = generate_schedule(shape.schedule, request))
        known->second = *std::move(made);
    }
    return known->second ? &*known->second : nullptr;
  }

  const Problem& group_;
  const int copies_;
  const Islands islands_;
  const CostTable table_;
  const std::vector<int> cuts_;
  const std::vector<Value> values_;
  std::vector<std::vector<double>> exchanged_;  // by first and end
  std::map<int, Sums> sums_;                    // by samples
  std::map<std::tuple<std::string, std::size_t, int>, std::optional<Schedule>>
      schedules_;
};

// Stages with the smallest M at one microbatch size.
class HostSearch {
 public:
  HostSearch(const HostCosts& costs, int microbatch)
      : costs_(costs), microbatch_(microbatch) {}

  // Those whose reductions take at most R; empty if there are none.
  HostStages stages(double R) const {
    double high = costs_.load(0, costs_.last()) + 1;
    double low = std::max(
        costs_.load(0, costs_.last()) / (2 * costs_.num_hosts()), 1e-9 * high);
    HostStages best = stages_within(R, high);
    if (best.empty()) return best;
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = std::sqrt(low * high);
      HostStages found = stages_within(R, middle);
      (found.empty() ? low : high) = middle;
      if (!found.empty()) best = std::move(found);
    }
    give_spare_hosts(best);
    return best;
  }

 private:
  int hosts_for(int first, int end, double R, double M) const {
    const double needed = std::ceil(costs_.load(first, end) / M - 1e-9);
    if (needed > costs_.num_hosts()) return kTooManyHosts;
    const int hosts = std::max(1, static_cast<int>(needed));
    return costs_.can_split(microbatch_, hosts) &&
                   costs_.reduction(first, end, hosts) <= R
               ? hosts
               : kTooManyHosts;
  }

  // Empty if the hosts are too few.
  HostStages stages_within(double R, double M) const {
    struct Cell {
      int hosts = kTooManyHosts, stages = 0, from = -1;
    };
    std::vector<Cell> cells(at(costs_.last() + 1));
    cells[0].hosts = 0;
    for (int end = 1; end <= costs_.last(); ++end)
      for (int first = 0; first < end; ++first) {
        const Cell& before = cells[at(first)];
        if (before.hosts >= costs_.num_hosts()) continue;
        const int hosts = before.hosts + hosts_for(first, end, R, M);
        Cell& cell = cells[at(end)];
        if (std::pair(hosts, before.stages + 1) <
            std::pair(cell.hosts, cell.stages))
          cell = {hosts, before.stages + 1, first};
      }
    HostStages stages;
    if (cells.back().hosts > costs_.num_hosts()) return stages;
    for (int end = costs_.last(); end > 0; end = cells[at(end)].from)
      stages.push_back(
          {end, cells[at(end)].hosts - cells[at(cells[at(end)].from)].hosts});
    std::reverse(stages.begin(), stages.end());
    return stages;
  }

  // One after the other to the stage with the largest load.
  void give_spare_hosts(HostStages& stages) const {
    int spare = costs_.num_hosts();
    for (const HostStage& stage : stages) spare -= stage.hosts;
    for (; spare > 0; --spare) {
      std::size_t slowest = 0;
      double largest = -1;
      for (std::size_t s = 0; s < stages.size(); ++s) {
        const int first = s == 0 ? 0 : stages[s - 1].end;
        const double own = costs_.load(first, stages[s].end) / stages[s].hosts;
        if (own > largest) slowest = s;
        largest = std::max(largest, own);
      }
      ++stages[slowest].hosts;
    }
  }

  const HostCosts& costs_;
  const int microbatch_;
};

using HostShapes = std::vector<HostShape>;

void add_moved_hosts(const HostShape& shape, HostShapes& all) {
  for (std::size_t from = 0; from < shape.stages.size(); ++from)
    for (std::size_t to = 0; to < shape.stages.size(); ++to) {
      if (from == to || shape.stages[from].hosts < 2) continue;
      all.push_back(shape);
      --all.back().stages[from].hosts;
      ++all.back().stages[to].hosts;
    }
}

void add_moved_cuts(const HostShape& shape, HostShapes& all) {
  for (std::size_t s = 0; s + 1 < shape.stages.size(); ++s)
    for (int by : {-2, -1, 1, 2}) {
      const int end = shape.stages[s].end + by;
      const int first = s == 0 ? 0 : shape.stages[s - 1].end;
      if (end <= first || end >= shape.stages[s + 1].end) continue;
      all.push_back(shape);
      all.back().stages[s].end = end;
    }
}

void add_joined(const HostShape& shape, HostShapes& all) {
  for (std::size_t s = 0; s + 1 < shape.stages.size(); ++s) {
    all.push_back(shape);
    HostStages& stages = all.back().stages;
    stages[s + 1].hosts += stages[s].hosts;
    stages.erase(stages.begin() + static_cast<std::ptrdiff_t>(s));
  }
}

// Divides a stage at every cut, and its hosts by the loads.
void add_divided(const HostShape& shape, const HostCosts& costs,
                 HostShapes& all) {
  int first = 0;
  for (std::size_t s = 0; s < shape.stages.size(); ++s) {
    const HostStage stage = shape.stages[s];
    for (int cut = first + 1; cut < stage.end && stage.hosts > 1; ++cut) {
      const double before = costs.load(first, cut),
                   after = costs.load(cut, stage.end);
      const double share = before / std::max(before + after, 1e-30);
      const int hosts =
          std::clamp(static_cast<int>(std::lround(share * stage.hosts)), 1,
                     stage.hosts - 1);
      all.push_back(shape);
      HostStages& stages = all.back().stages;
      stages[s].hosts -= hosts;
      stages.insert(stages.begin() + static_cast<std::ptrdiff_t>(s),
                    {cut, hosts});
    }
    first = stage.end;
  }
}

bool has_few_microbatches(const Problem& group, int microbatch) {
  const int count = group.minibatch / microbatch;
  return count >= kMinMicrobatches && count <= kMaxMicrobatches;
}

// All single changes of a pipeline.
HostShapes changed(const HostShape& shape, const HostCosts& costs,
                   const Problem& group) {
  HostShapes all;
  add_moved_hosts(shape, all);
  add_moved_cuts(shape, all);
  add_joined(shape, all);
  add_divided(shape, costs, all);
  for (const char* schedule : kHostSchedules) {
    all.push_back(shape);
    all.back().schedule = schedule;
  }
  for (int microbatch : group.microbatches) {
    if (!has_few_microbatches(group, microbatch)) continue;
    all.push_back(shape);
    all.back().microbatch = microbatch;
  }
  return all;
}

struct PredictedShape {
  HostShape shape;
  double seconds = kInfinity;
};

PredictedShape best_of(const HostShapes& shapes, HostCosts& costs,
                       PredictedShape best) {
  for (const HostShape& shape : shapes)
    if (const double seconds = costs.predicted(shape); seconds < best.seconds)
      best = {shape, seconds};
  return best;
}

// Changes the pipeline while that makes it faster.
PredictedShape improved(PredictedShape best, HostCosts& costs,
                        const Problem& group) {
  for (int i = 0; i < kMaxChanges && !group.is_over(); ++i) {
    const double before = best.seconds;
    best = best_of(changed(best.shape, costs, group), costs, std::move(best));
    if (best.seconds >= before) break;
  }
  return best;
}

// For one microbatch size, at each of some limits on reductions.
HostShapes shapes_at(int microbatch, const HostCosts& costs) {
  HostShapes all;
  const HostSearch search(costs, microbatch);
  double R = costs.reduction(0, costs.last(), costs.num_hosts());
  for (int i = 0; i < kReductionLimits; ++i, R *= kReductionFactor) {
    HostStages stages = search.stages(R);
    if (stages.empty()) break;
    for (const char* schedule : kHostSchedules)
      all.push_back({microbatch, schedule, stages});
  }
  return all;
}

}  // namespace

std::optional<HostPipeline> host_pipeline(const Problem& group, int copies) {
  const Cluster& cluster = *group.cluster;
  if (cluster.num_hosts() < 2 || cluster.kinds().size() != 1 ||
      is_asynchronous(group.method))
    return {};
  const std::vector<Islands> islands = islands_of(cluster);
  if (islands.empty()) return {};
  // A replica's share of an eighth of the minibatch, if its stage is on a
  // quarter of the hosts.
  const int share = std::max(1, group.minibatch / 2 / cluster.num_devices());
  auto table = CostTable::create(*group.profile, cluster, share);
  if (!table) return {};
  HostCosts costs(group, copies, islands.front(), *std::move(table));
  PredictedShape best;
  for (int microbatch : group.microbatches)
    if (has_few_microbatches(group, microbatch))
      best = best_of(shapes_at(microbatch, costs), costs, std::move(best));
  if (best.seconds == kInfinity) return {};
  best = improved(std::move(best), costs, group);
  return HostPipeline{costs.pipeline(best.shape), Seconds(best.seconds)};
}

}  // namespace pipewright
