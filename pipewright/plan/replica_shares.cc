#include "pipewright/plan/replica_shares.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>

#include "pipewright/base/index.h"

namespace pipewright {
namespace {

using Workers = std::vector<WorkerId>;
using StageGroups = std::map<Workers, std::vector<const Stage*>>;

constexpr int kHalvings = 48;

// The most samples that a device finishes by `end`, at least one.
int max_samples(int device, int samples, Seconds end,
                const TimeOfSamples& time) {
  int low = 1, high = samples;
  while (low < high) {
    const int middle = low + (high - low + 1) / 2;
    if (time(device, middle) <= end)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

std::vector<int> most_of_each(int samples, int devices, Seconds end,
                              const TimeOfSamples& time) {
  std::vector<int> most;
  for (int d = 0; d < devices; ++d)
    most.push_back(max_samples(d, samples, end, time));
  return most;
}

std::int64_t sum_of(const std::vector<int>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

// The device that would finish last among those with more than one sample.
std::size_t last_to_finish(const std::vector<int>& counts,
                           const TimeOfSamples& time) {
  std::optional<std::size_t> last;
  for (std::size_t d = 0; d < counts.size(); ++d) {
    const auto end = [&](std::size_t i) {
      return time(static_cast<int>(i), counts[i]);
    };
    if (counts[d] > 1 && (!last || end(d) > end(*last))) last = d;
  }
  return *last;
}

// Stages by their workers, where they split microbatches.
StageGroups split_groups(const Plan& plan) {
  StageGroups groups;
  if (plan.replication != Replication::Split) return groups;
  for (const Stage& stage : plan.stages)
    groups[stage.workers].push_back(&stage);
  std::map<WorkerId, int> uses;
  for (const auto& [workers, stages] : groups)
    for (WorkerId worker : workers) ++uses[worker];
  std::erase_if(groups, [&](const auto& group) {
    return std::any_of(group.first.begin(), group.first.end(),
                       [&](WorkerId worker) { return uses[worker] > 1; });
  });
  return groups;
}

bool has_two_kinds(const Workers& workers, const Plan& plan,
                   const Cluster& cluster) {
  std::set<int> kinds;
  for (WorkerId worker : workers)
    kinds.insert(cluster.devices()[plan.devices[worker.index()].index()].kind);
  return kinds.size() > 1;
}

// Seconds that stages take for a number of samples on the devices of workers,
// each computed once per kind.
class GroupTimes {
 public:
  GroupTimes(const std::vector<const Stage*>& stages, const Profile& profile)
      : stages_(stages), profile_(profile) {}

  Result<Seconds> at(const DeviceKind& kind, int samples) {
    const std::pair key{kind.name, samples};
    if (const auto known = known_.find(key); known != known_.end())
      return known->second;
    PIPEWRIGHT_TRY(
        const std::vector<LayerTimes> times,
        times_at(profile_, kind.name, samples, Outside::Extrapolate));
    Seconds sum;
    for (const Stage* stage : stages_) sum += stage_time(*stage, times, kind);
    known_[key] = sum;
    return sum;
  }

 private:
  Seconds stage_time(const Stage& stage, const std::vector<LayerTimes>& times,
                     const DeviceKind& kind) const {
    Seconds sum;
    int with_weights = 0;
    for (LayerId layer : stage.forward) sum += times[layer.index()].forward;
    for (LayerId layer : stage.backward) {
      const LayerTimes& time = times[layer.index()];
      sum += time.backward_input + time.backward_weight;
      if (stage.recompute) sum += time.forward;
      if (profile_.has_weights(layer)) ++with_weights;
    }
    return sum * (1 + kind.layer_overhead) +
           kind.gradient_overhead * with_weights + kind.action_overhead * 2.0;
  }

  const std::vector<const Stage*>& stages_;
  const Profile& profile_;
  std::map<std::pair<std::string, int>, Seconds> known_;
};

}  // namespace

std::vector<int> fastest_shares(int samples, int devices,
                                const TimeOfSamples& time) {
  Seconds early, late;
  for (int d = 0; d < devices; ++d) late = std::max(late, time(d, samples));
  for (int i = 0; i < kHalvings; ++i) {
    const Seconds middle = early + (late - early) / 2.0;
    if (sum_of(most_of_each(samples, devices, middle, time)) >= samples)
      late = middle;
    else
      early = middle;
  }
  std::vector<int> counts = most_of_each(samples, devices, late, time);
  for (std::int64_t over = sum_of(counts) - samples; over > 0; --over)
    --counts[last_to_finish(counts, time)];
  // Only where times fall as samples grow.
  for (std::int64_t missing = samples - sum_of(counts); missing > 0; --missing)
    ++*std::min_element(counts.begin(), counts.end());
  return counts;
}

Result<Plan> with_shares(const Plan& plan, const Profile& profile,
                         const Cluster& cluster) {
  Plan result = plan;
  if (cluster.kinds().size() < 2) return result;
  for (const auto& [workers, stages] : split_groups(plan)) {
    if (!has_two_kinds(workers, plan, cluster)) continue;
    const auto kind_of = [&, &own = workers](int replica) -> const DeviceKind& {
      return cluster.kind_of(plan.devices[own[at(replica)].index()]);
    };
    GroupTimes times(stages, profile);
    for (std::size_t j = 0; j < workers.size(); ++j)
      if (auto one = times.at(kind_of(static_cast<int>(j)), 1); !one)
        return one.error();
    const std::vector<int> shares =
        fastest_shares(plan.microbatch, static_cast<int>(workers.size()),
                       [&](int replica, int samples) {
                         return times.at(kind_of(replica), samples).value();
                       });
    for (std::size_t s = 0; s < plan.stages.size(); ++s)
      if (plan.stages[s].workers == workers) result.stages[s].samples = shares;
  }
  return check_plan(result, profile) ? result : plan;
}

}  // namespace pipewright
