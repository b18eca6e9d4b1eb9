#include "pipewright/planners/auto/auto_costs.h"

#include <algorithm>

#include "pipewright/planners/best_cuts.h"
#include "pipewright/planners/cut_positions.h"
#include "pipewright/planners/stage_list.h"

namespace pipewright {
namespace {

constexpr int kMaxPositions = 200;

// One replica's share of a stage's time.
double share(double seconds, const PipelineStage& stage) {
  return seconds / static_cast<double>(stage.devices.size());
}

// The largest number of samples that a replica has of a split microbatch.
int largest_part(int microbatch, std::size_t replicas) {
  const int count = static_cast<int>(replicas);
  return std::max(1, (microbatch + count - 1) / count);
}

}  // namespace

Result<AutoCosts> AutoCosts::create(const Problem& problem) {
  AutoCosts costs;
  costs.problem_ = &problem;
  const int kind = leading_kind(*problem.cluster);
  for (int microbatch : problem.microbatches) {
    PIPEWRIGHT_TRY(
        CostTable table,
        CostTable::create(*problem.profile, *problem.cluster, microbatch));
    costs.positions_[microbatch] = cut_positions(table, kind, kMaxPositions);
    costs.tables_.emplace(microbatch, std::move(table));
    if (auto added = costs.add_slices(microbatch); !added) return added.error();
  }
  return costs;
}

int AutoCosts::slowest_kind(const PipelineStage& stage) const {
  const CostTable& table = tables_.begin()->second;
  const auto seconds = [&](int kind) {
    return table.compute(kind, 0, table.num_layers());
  };
  int slowest = -1;
  for (DeviceId device : stage.devices) {
    const int kind = problem_->cluster->devices()[device.index()].kind;
    if (kind == slowest) continue;
    if (slowest < 0 || seconds(kind) > seconds(slowest)) slowest = kind;
  }
  return slowest;
}

bool AutoCosts::set_ends(Pipeline& pipeline) const {
  const CostTable& table = costs(pipeline.microbatch);
  const std::vector<int>& positions = positions_.at(pipeline.microbatch);
  const int count = static_cast<int>(positions.size()) - 1;
  const int stages = static_cast<int>(pipeline.stages.size());
  if (stages > count) return false;
  std::vector<int> kinds;
  std::vector<double> bandwidths;  // of the link before each stage
  for (int s = 0; s < stages; ++s) {
    const PipelineStage& stage = pipeline.stages[at(s)];
    kinds.push_back(slowest_kind(stage));
    const Link* link = s == 0 ? nullptr
                              : problem_->cluster->link(
                                    pipeline.stages[at(s - 1)].devices.front(),
                                    stage.devices.front());
    if (s > 0 && link == nullptr) return false;
    bandwidths.push_back(link ? link->bandwidth.value() : kInfinity);
  }
  const Cuts cuts = best_cuts(
      count, stages,
      [&](int s, int i, double slowest) {
        const auto bytes =
            static_cast<double>(table.crossing(positions[at(i)]).value());
        return std::max(
            slowest, share(bytes / bandwidths[at(s)], pipeline.stages[at(s)]));
      },
      [&](int s, int i, int j, double slowest) {
        const Seconds time =
            table.compute(kinds[at(s)], positions[at(i)], positions[at(j)]);
        return std::max(slowest, share(time.value(), pipeline.stages[at(s)]));
      });
  for (std::size_t s = 0; s < cuts.ends.size(); ++s) {
    pipeline.stages[s].end = positions[at(cuts.ends[s])];
    pipeline.stages[s].backward_end = -1;
  }
  return !cuts.ends.empty();
}

void AutoCosts::set_times(Pipeline& pipeline) const {
  const CostTable& table = costs(pipeline.microbatch);
  pipeline.times.clear();
  int first = 0;
  for (const PipelineStage& stage : pipeline.stages) {
    const int kind = slowest_kind(stage);
    const auto seconds = [&](Seconds whole) {
      return Seconds(share(whole.value(), stage));
    };
    const Seconds input = table.backward_input(kind, first, stage.end);
    pipeline.times.push_back(
        {seconds(table.forward(kind, first, stage.end)), seconds(input),
         seconds(table.backward(kind, first, stage.end) - input)});
    first = stage.end;
  }
}

double AutoCosts::load(const Pipeline& pipeline, std::size_t stage) const {
  const PipelineStage& own = pipeline.stages[stage];
  const int first = stage == 0 ? 0 : pipeline.stages[stage - 1].end;
  return share(costs(pipeline.microbatch)
                   .compute(slowest_kind(own), first, own.end)
                   .value(),
               own);
}

Result<void> AutoCosts::add_slices(int microbatch) {
  const auto& kinds = problem_->cluster->kinds();
  for (int r = 1; r <= problem_->cluster->num_devices(); ++r) {
    const int samples = largest_part(microbatch, at(r));
    auto [known, is_new] = sums_.try_emplace(samples);
    if (!is_new) continue;
    for (const DeviceKind& kind : kinds) {
      auto times = times_at(*problem_->profile, kind.name, samples,
                            Outside::Extrapolate);
      if (!times) return times.error();
      std::vector<double> forward(1, 0.0), backward(1, 0.0);
      for (const LayerTimes& layer : *times) {
        forward.push_back(forward.back() + layer.forward.value());
        backward.push_back(backward.back() + layer.backward().value());
      }
      known->second.forward.push_back(std::move(forward));
      known->second.backward.push_back(std::move(backward));
    }
  }
  return {};
}

double AutoCosts::busiest(const Pipeline& pipeline) const {
  std::map<DeviceId, double> seconds;  // by a worker's first device
  const int microbatches = problem_->minibatch / pipeline.microbatch;
  int first = 0, backward_first = 0;
  for (const PipelineStage& stage : pipeline.stages) {
    const bool split = pipeline.replication == Replication::Split;
    const std::size_t replicas = stage.devices.size();
    const Sums& sums =
        sums_.at(largest_part(pipeline.microbatch, split ? replicas : 1));
    const int turns =
        split ? microbatches : largest_part(microbatches, replicas);
    const int backward_end =
        stage.backward_end < 0 ? stage.end : stage.backward_end;
    // The replica with the most samples, or with the first turn.
    const DeviceId device =
        split ? stage.devices.back() : stage.devices.front();
    const auto kind = at(problem_->cluster->devices()[device.index()].kind);
    const auto between = [](const std::vector<double>& sum, int from, int to) {
      return sum[at(to)] - sum[at(from)];
    };
    const auto& forward = sums.forward[kind];
    double load = between(forward, first, stage.end) +
                  between(sums.backward[kind], backward_first, backward_end);
    if (stage.recompute) load += between(forward, backward_first, backward_end);
    seconds[stage.devices.front()] += load * turns;
    first = stage.end;
    backward_first = backward_end;
  }
  double busiest = 0;
  for (const auto& [device, load] : seconds) busiest = std::max(busiest, load);
  return busiest * (1 - 1e-9);  // allows for rounding
}

}  // namespace pipewright
