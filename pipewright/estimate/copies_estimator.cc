#include "pipewright/estimate/copies_estimator.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "pipewright/base/index.h"
#include "pipewright/estimate/simulated_estimate.h"
#include "pipewright/plan/lowering/lower.h"
#include "pipewright/planners/copies.h"

namespace pipewright {
namespace {

using Ring = std::vector<DeviceId>;

// The bytes that two copies have of a value of `whole` bytes for all copies.
// None if slices of the two would be rounded differently from slices of the
// whole.
std::optional<Bytes> of_two(Bytes whole, int microbatch, int copies) {
  const std::int64_t samples = std::int64_t{microbatch} * copies;
  const Bytes two = whole * 2 / std::int64_t{copies};
  if (two * std::int64_t{copies} == whole * 2) return two;
  for (std::int64_t slice = 1; slice <= microbatch; ++slice)
    if (whole * slice / samples != two * slice / std::int64_t{2 * microbatch})
      return {};
  return two;
}

// The profile with the sizes that two of all copies have.
std::shared_ptr<const Profile> profile_of_two(const Profile& profile,
                                              int microbatch, int copies) {
  const auto whole =
      sizes_at(profile, microbatch * copies, Outside::Extrapolate);
  if (!whole) return nullptr;
  std::vector<LayerSizes> two;
  for (const LayerSizes& sizes : *whole) {
    const auto output = of_two(sizes.output, microbatch, copies);
    const auto kept = of_two(sizes.keeps_private, microbatch, copies);
    const auto workspace = of_two(sizes.workspace, microbatch, copies);
    const auto carried = of_two(sizes.carried, microbatch, copies);
    if (!output || !kept || !workspace || !carried) return nullptr;
    two.push_back({*output, *kept, *workspace, *carried});
  }
  auto result = std::make_shared<Profile>(profile);
  result->sizes = {{2 * microbatch, std::move(two)}};
  return result;
}

// Facts about a cluster's groups and rings, each computed once.
class GroupFacts {
 public:
  bool are_equal(const Cluster& cluster, const EqualGroups& groups) {
    const std::lock_guard lock(mutex_);
    const auto [fact, is_new] =
        equal_.try_emplace(std::pair(groups.count, groups.size));
    if (is_new) fact->second = has_equal_groups(cluster, groups);
    return fact->second;
  }
  // Null where two copies would not behave as all copies do.
  std::shared_ptr<const Profile> two(const Profile& profile, int microbatch,
                                     int copies) {
    const std::lock_guard lock(mutex_);
    const auto [known, is_new] =
        profiles_.try_emplace(std::pair(microbatch, copies));
    if (is_new) known->second = profile_of_two(profile, microbatch, copies);
    return known->second;
  }
  Result<RingPace> pace(const Cluster& cluster, const Ring& ring) {
    const std::lock_guard lock(mutex_);
    if (const auto known = paces_.find(ring); known != paces_.end())
      return known->second;
    PIPEWRIGHT_TRY(const RingPace pace, ring_pace(cluster, ring));
    paces_[ring] = pace;
    return pace;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int, int>, bool> equal_;
  std::map<std::pair<int, int>, std::shared_ptr<const Profile>> profiles_;
  std::map<Ring, RingPace> paces_;
};

// One plan and its copies.
class Copies {
 public:
  Copies(const Problem& problem, GroupFacts& facts, const Plan& plan,
         const EqualGroups& groups)
      : problem_(problem), facts_(facts), plan_(plan), groups_(groups) {}

  Result<Estimate> estimate() {
    const std::shared_ptr<const Profile> profile = profile_of_two();
    if (!profile) return all();
    PIPEWRIGHT_TRY(const Plan two,
                   copies_of(plan_, {2, groups_.size}, 2 * plan_.minibatch));
    PIPEWRIGHT_TRY(const Program program, lower(two, *profile));
    PIPEWRIGHT_TRY(const ProgramFacts facts, validate(program));
    PIPEWRIGHT_TRY(Costs costs,
                   costs_of(program, *problem_.profile, *problem_.cluster));
    Bytes summed;
    for (std::size_t i = 0; i < program.reductions.size(); ++i) {
      const Reduction& reduction = program.reductions[i];
      const Ring ring = ring_of(reduction, two);
      PIPEWRIGHT_TRY(const RingPace pace, facts_.pace(*problem_.cluster, ring));
      // The links are those of two copies: copies are equal, and so is what
      // each of their links carries.
      pace.set(reduction.bytes, costs.reductions[i]);
      summed += reduction.bytes * (2 * std::int64_t{pace.size - 1});
    }
    Estimate estimate = simulated_estimate(program, facts, costs, problem_);
    estimate.traffic =
        estimate.traffic / std::int64_t{2} * std::int64_t{groups_.count} +
        summed;
    estimate.memory = of_first_copy(estimate.memory, 2);
    return estimate;
  }

 private:
  // Null where all copies have to be simulated.
  std::shared_ptr<const Profile> profile_of_two() const {
    if (groups_.count < 3) return nullptr;
    for (const DeviceKind& kind : problem_.cluster->kinds())
      if (kind.on_chip_memory > Bytes(0)) return nullptr;
    for (const Link& link : problem_.cluster->links())
      if (!link.rates.empty() || !link.collective_rates.empty())
        return nullptr;  // a longer ring has smaller pieces
    if (!facts_.are_equal(*problem_.cluster, groups_)) return nullptr;
    // Copies that take turns have whole microbatches. Where groups have
    // unequally many samples the estimate is not exact anyway.
    if (takes_turns(plan_) ||
        plan_.minibatch * groups_.count != problem_.minibatch)
      return {std::shared_ptr<void>(), problem_.profile};
    return facts_.two(*problem_.profile, plan_.microbatch, groups_.count);
  }

  Result<Estimate> all() const {
    PIPEWRIGHT_TRY(const Plan whole,
                   copies_of(plan_, groups_, problem_.minibatch));
    PIPEWRIGHT_TRY(Estimate estimate, problem_.estimate(whole));
    estimate.memory = of_first_copy(estimate.memory, groups_.count);
    return estimate;
  }

  // Workers of a stage are numbered copy by copy, as in copies_of().
  std::vector<Bytes> of_first_copy(const std::vector<Bytes>& memory,
                                   int copies) const {
    std::vector<Bytes> first(plan_.devices.size());
    for (const Stage& stage : plan_.stages) {
      const auto begin = stage.workers.front().index();
      for (WorkerId worker : stage.workers)
        first[worker.index()] =
            memory[begin * at(copies) + worker.index() - begin];
    }
    return first;
  }

  // The ring of all copies, from that of two, in the workers' order of
  // copies_of().
  Ring ring_of(const Reduction& reduction, const Plan& two) const {
    std::vector<WorkerId> workers = reduction.workers;
    std::sort(workers.begin(), workers.end());
    Ring ring;
    for (const Stage* stage : stages_once(two)) {
      Ring first;
      const std::size_t half = stage->workers.size() / 2;
      for (std::size_t i = 0; i < half; ++i)
        if (std::binary_search(workers.begin(), workers.end(),
                               stage->workers[i]))
          first.push_back(two.devices[stage->workers[i].index()]);
      for (int c = 0; c < groups_.count; ++c)
        for (DeviceId device : first)
          ring.push_back(DeviceId(device.value + c * groups_.size));
    }
    return ring;
  }

  // One stage for each set of workers, in the order of workers.
  static std::vector<const Stage*> stages_once(const Plan& plan) {
    std::map<WorkerId, const Stage*> by_worker;
    for (const Stage& stage : plan.stages)
      by_worker[stage.workers.front()] = &stage;
    std::vector<const Stage*> stages;
    for (const auto& [worker, stage] : by_worker) stages.push_back(stage);
    return stages;
  }

  const Problem& problem_;
  GroupFacts& facts_;
  const Plan& plan_;
  const EqualGroups groups_;
};

}  // namespace

CopiesEstimator copies_estimator(const Problem& problem) {
  auto known = std::make_shared<Problem>();
  known->profile = problem.profile;
  known->minibatch = problem.minibatch;
  known->cluster = problem.cluster;
  known->memory_limit = problem.memory_limit;
  known->estimate = problem.estimate;
  auto facts = std::make_shared<GroupFacts>();
  return [known, facts](const Plan& plan, const EqualGroups& groups) {
    return Copies(*known, *facts, plan, groups).estimate();
  };
}

}  // namespace pipewright
