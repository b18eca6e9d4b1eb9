#include "pipewright/planners/auto/group_problem.h"

#include <algorithm>
#include <functional>

#include "pipewright/base/index.h"
#include "pipewright/planners/copies.h"

namespace pipewright {
namespace {

// How many microbatch sizes are tried where groups have unequally many samples,
// and how many samples more than others the largest group may have then, as a
// share of all.
constexpr std::size_t kMaxUnevenSizes = 3;
constexpr double kMaxUnevenness = 0.25;
// Plans with this many actions are simulated in some tenths of a second.
constexpr std::size_t kMaxSimulated = 200'000;

// A device that takes turns computes at most so many samples at once.
constexpr int kMaxTurnSamples = 8;

// The samples of a group: a minibatch, and sizes of microbatches.
struct GroupSamples {
  int minibatch = 0;
  std::vector<int> microbatches;
};

bool is_few(int num_microbatches, const EqualGroups& groups) {
  return num_microbatches <= std::max(8, 4 * groups.size);
}

GroupSamples even_samples(const Problem& whole, const EqualGroups& groups,
                          bool few_microbatches) {
  GroupSamples samples{whole.minibatch / groups.count, {}};
  for (int microbatch : whole.microbatches)
    if (microbatch % groups.count == 0 &&
        (!few_microbatches || is_few(whole.minibatch / microbatch, groups)))
      samples.microbatches.push_back(microbatch / groups.count);
  return samples;
}

double unevenness(int microbatch, const EqualGroups& groups) {
  const int largest = (microbatch + groups.count - 1) / groups.count;
  return double(largest) * groups.count / microbatch - 1;
}

// The largest microbatch, and the smallest that divide evenly enough.
std::vector<int> uneven_microbatches(const Problem& whole,
                                     const EqualGroups& groups,
                                     bool few_microbatches) {
  std::vector<int> sizes;
  for (int microbatch : whole.microbatches)
    if (microbatch >= groups.count &&
        (!few_microbatches || is_few(whole.minibatch / microbatch, groups)))
      sizes.push_back(microbatch);
  std::sort(sizes.begin(), sizes.end(), std::greater());
  const auto is_too_uneven = [&](int microbatch) {
    return unevenness(microbatch, groups) > kMaxUnevenness;
  };
  if (few_microbatches) std::erase_if(sizes, is_too_uneven);
  if (sizes.size() > kMaxUnevenSizes)
    sizes.erase(sizes.begin() + 1,
                sizes.end() - std::ptrdiff_t{kMaxUnevenSizes - 1});
  return sizes;
}

std::vector<GroupSamples> samples_of_group(const Problem& whole,
                                           const EqualGroups& groups,
                                           bool few_microbatches) {
  std::vector<GroupSamples> all;
  if (whole.minibatch % groups.count == 0) {
    all.push_back(even_samples(whole, groups, few_microbatches));
    if (!all.front().microbatches.empty()) return all;
    all.clear();
  }
  for (int size : uneven_microbatches(whole, groups, few_microbatches)) {
    const int largest = (size + groups.count - 1) / groups.count;
    all.push_back({largest * (whole.minibatch / size), {largest}});
  }
  return all;
}

std::size_t num_actions(const Plan& plan) {
  std::size_t actions = 0;
  const auto& sections = plan.schedule.sections();
  for (const Orders* orders :
       {&sections.prologue, &sections.body, &sections.epilogue})
    for (const auto& order : *orders) actions += order.size();
  return actions;
}

std::string copies_text(const Plan& plan, const Plan& whole,
                        const EqualGroups& groups) {
  const std::string text = " It is copied to " + std::to_string(groups.count) +
                           " equal groups of " + std::to_string(groups.size) +
                           " devices";
  const int least = whole.microbatch / groups.count;
  if (least == plan.microbatch || whole.microbatch == plan.microbatch)
    return text + ".";
  return text + ", with " + std::to_string(least) + " or " +
         std::to_string(plan.microbatch) + " samples of a microbatch each.";
}

// Memory per worker of all copies, from that of the plan that is copied.
std::vector<Bytes> copied_memory(const Planned& planned, std::size_t copies) {
  std::vector<Bytes> memory(planned.plan.devices.size() * copies);
  for (const Stage& stage : planned.plan.stages) {
    const std::size_t count = stage.workers.size();
    const std::size_t first = stage.workers.front().index();
    for (std::size_t i = 0; i < count * copies; ++i)
      memory[first * copies + i] = planned.estimate.memory[first + i % count];
  }
  return memory;
}

Estimator estimate_of(const Problem& whole, const EqualGroups& groups) {
  if (groups.count == 1) return whole.estimate;
  return [&whole, groups](const Plan& plan) -> Result<Estimate> {
    if (have_samples(plan, groups, whole.minibatch))
      return whole.estimate_copies(plan, groups);
    return bad_configuration("copies of the plan have too few samples");
  };
}

// The candidates are for replicas that split microbatches: where they are not
// asked for, smaller ones may be taken.
bool may_have_microbatch(const Problem& whole, int microbatch) {
  return whole.microbatches_for ||
         std::count(whole.microbatches.begin(), whole.microbatches.end(),
                    microbatch) > 0;
}

// Null if the groups cannot be planned for.
std::unique_ptr<const GroupProblem> group_problem(const Problem& whole,
                                                  const EqualGroups& groups,
                                                  const GroupSamples& samples) {
  const Result<Cluster> cluster = first_devices(*whole.cluster, groups.size);
  if (!cluster) return nullptr;
  auto made =
      std::make_unique<GroupProblem>(GroupProblem{groups, *cluster, whole});
  made->problem.cluster = &made->cluster;
  made->problem.minibatch = samples.minibatch;
  made->problem.microbatches = samples.microbatches;
  made->problem.estimate = estimate_of(whole, groups);
  made->problem.estimate_copies = nullptr;
  return made;
}

}  // namespace

GroupProblems group_problems(const Problem& whole, const EqualGroups& groups,
                             bool few_microbatches) {
  GroupProblems problems;
  for (const GroupSamples& samples :
       samples_of_group(whole, groups, few_microbatches))
    if (auto problem = group_problem(whole, groups, samples))
      problems.push_back(std::move(problem));
  return problems;
}

std::unique_ptr<const GroupProblem> rotating_group(const Problem& whole,
                                                   const EqualGroups& groups) {
  if (whole.minibatch % groups.count != 0) return nullptr;
  GroupSamples samples{whole.minibatch / groups.count, {}};
  for (int microbatch = 1; microbatch <= kMaxTurnSamples; ++microbatch)
    if (samples.minibatch % microbatch == 0 &&
        may_have_microbatch(whole, microbatch))
      samples.microbatches.push_back(microbatch);
  return group_problem(whole, groups, samples);
}

std::optional<Copied> copied(Planned planned, const Problem& whole,
                             const EqualGroups& groups) {
  if (groups.count == 1) return Copied{std::move(planned), true};
  Result<Plan> plan = copies_of(planned.plan, groups, whole.minibatch);
  if (!plan) return {};
  const bool is_exact =
      planned.plan.minibatch * groups.count == whole.minibatch;
  planned.why += copies_text(planned.plan, *plan, groups);
  planned.estimate.memory = copied_memory(planned, at(groups.count));
  planned.plan = *std::move(plan);
  return Copied{std::move(planned), is_exact};
}

Planned simulated(Copied copied, const Problem& whole) {
  Planned planned = std::move(copied.planned);
  if (copied.is_exact) return planned;
  if (num_actions(planned.plan) <= kMaxSimulated && !whole.is_over())
    if (Result<Estimate> exact = whole.estimate(planned.plan);
        exact && exact->fits) {
      planned.estimate = *std::move(exact);
      return planned;
    }
  planned.why += " The step is as long as if all had as many.";
  return planned;
}

}  // namespace pipewright
