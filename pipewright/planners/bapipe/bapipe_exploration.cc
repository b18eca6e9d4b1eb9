#include "pipewright/planners/bapipe/bapipe_exploration.h"

#include <algorithm>

#include "pipewright/base/index.h"
#include "pipewright/base/text.h"
#include "pipewright/model/zoo/zoo.h"
#include "pipewright/planners/bapipe/bapipe_partition.h"
#include "pipewright/planners/bapipe/bapipe_split.h"
#include "pipewright/planners/refusal.h"
#include "pipewright/profile/split_profile.h"

namespace pipewright {
namespace {

// Rounds of adding the memory that the formula missed.
constexpr int kMemoryRounds = 4;

bool computes_while_communicating(const Cluster& cluster) {
  for (int d = 0; d < cluster.num_devices(); ++d)
    if (cluster.kind_of(DeviceId(d)).execution != ExecutionClass::Async)
      return false;
  return true;
}

// Those of the platform that are switched on.
std::vector<BaPipeSchedule> schedules_of(const Cluster& cluster,
                                         const BaPipeParts& parts) {
  const bool streams = computes_while_communicating(cluster);
  std::vector<BaPipeSchedule> schedules;
  if (streams && parts.one_as) schedules.push_back(BaPipeSchedule::OneAs);
  if (streams && parts.fbp_as) schedules.push_back(BaPipeSchedule::FbpAs);
  if (!streams && parts.sno) schedules.push_back(BaPipeSchedule::Sno);
  if (!streams && parts.so) schedules.push_back(BaPipeSchedule::So);
  return schedules;
}

bool can_split_layers(const Cluster& cluster) {
  return std::any_of(cluster.kinds().begin(), cluster.kinds().end(),
                     [](const DeviceKind& kind) { return kind.splits_layers; });
}

bool splits_layers(const Cluster& cluster,
                   const std::vector<DeviceId>& devices) {
  return std::all_of(devices.begin(), devices.end(), [&](DeviceId device) {
    return cluster.kind_of(device).splits_layers;
  });
}

// Stages end before these layers.
Pipeline pipeline_of_ends(const StageCosts& costs,
                          const std::vector<int>& ends) {
  Pipeline pipeline;
  pipeline.microbatch = costs.blocks().microbatch();
  pipeline.schedule = generator_of(costs.schedule());
  for (std::size_t s = 0; s < ends.size(); ++s)
    pipeline.stages.push_back({ends[s], -1, {costs.devices()[s]}, false});
  return pipeline;
}

Pipeline explored_pipeline(const StageCosts& costs, const StageEnds& ends) {
  std::vector<int> layers;
  for (int end : ends) layers.push_back(costs.blocks().position(end));
  return pipeline_of_ends(costs, layers);
}

// The order of devices that promises the shortest step, and its stages.
struct Ordered {
  StageCosts costs;
  StageEnds ends;
};
std::optional<Ordered> best_order(
    const BlockCosts& blocks, const Problem& problem, BaPipeSchedule schedule,
    const std::vector<std::vector<DeviceId>>& orders,
    const PartitionRules& rules, const std::vector<Bytes>& missed = {}) {
  std::optional<Ordered> best;
  Seconds best_step;
  for (const auto& order : orders) {
    if (best && problem.is_over()) break;
    StageCosts costs(blocks, problem, schedule, order);
    costs.set_missed(missed);
    const auto ends = balanced_ends(costs, rules);
    if (!ends) continue;
    const Seconds step = promised_step(costs, *ends);
    if (best && step >= best_step) continue;
    best = Ordered{std::move(costs), *ends};
    best_step = step;
  }
  return best;
}

}  // namespace

BaPipeExploration::BaPipeExploration(const Problem& problem,
                                     std::string planner, BaPipeParts parts)
    : problem_(problem), planner_(std::move(planner)), parts_(parts) {
  if (!parts.split_layers || !problem.may_split_layers ||
      !problem.estimator_for || !can_split_layers(*problem.cluster))
    return;
  auto model = load_model(problem.profile->model);
  if (!model || !is_profile_of(*problem.profile, *model)) {
    remarks_.push_back("layers stay whole: the profile's are not those of " +
                       problem.profile->model);
    return;
  }
  if (model->exported())
    remarks_.push_back("layers stay whole: " + problem.profile->model +
                       " is an exported model");
  model_ = *std::move(model);
  for (int l = 0; l < model_->num_layers(); ++l)
    may_split_.push_back(why_not_split(*model_, LayerId(l)).empty());
}

Result<void> BaPipeExploration::explore(int microbatch) {
  const Cluster& cluster = *problem_.cluster;
  auto blocks = BlockCosts::create(*problem_.profile, cluster, microbatch);
  if (!blocks) return blocks.error();
  const int stages = std::min(cluster.num_devices(), blocks->num_blocks());
  const Orders orders = device_orders(cluster, stages);
  for (BaPipeSchedule schedule : schedules_of(cluster, parts_)) {
    explore_schedule(*blocks, schedule, orders);
    if (problem_.is_over()) break;
  }
  return {};
}

void BaPipeExploration::explore_schedule(const BlockCosts& blocks,
                                         BaPipeSchedule schedule,
                                         const Orders& orders) {
  const std::size_t before = candidates_.size();
  const auto start = best_order(blocks, problem_, schedule, orders, {});
  if (!start) return;
  try_ends(start->costs, start->ends, "inter-layer");
  const bool links =
      parts_.coarse_partition && some_link_limits(start->costs, start->ends);
  if (links) {
    try_coarser(start->costs, start->ends);
    if (const auto exact =
            best_order(blocks, problem_, schedule, orders, {.links = true}))
      try_ends(exact->costs, exact->ends, "coarse, exact");
  } else if (model_ &&
             splits_layers(*problem_.cluster, start->costs.devices())) {
    try_split(start->costs, start->ends);
  }
  bool fits = false;
  for (std::size_t i = before; i < candidates_.size(); ++i)
    fits = fits || candidates_[i].fits;
  if (!fits && parts_.memory_tuning)
    fit_memory(start->costs, start->ends, orders, links);
}

void BaPipeExploration::try_coarser(const StageCosts& costs,
                                    const StageEnds& start) {
  StageEnds ends = start;
  std::size_t last = try_ends(costs, ends, "inter-layer");
  while (!problem_.is_over()) {
    PartitionRules rules;
    rules.largest_crossing = largest_crossing(costs, ends) - Bytes(1);
    const auto coarser = balanced_ends(costs, rules);
    if (!coarser) return;
    const std::size_t next = try_ends(costs, *coarser, "coarse, threshold");
    if (!candidates_[next].planned || !candidates_[last].planned ||
        candidates_[next].planned->estimate.step >=
            candidates_[last].planned->estimate.step)
      return;
    ends = *coarser;
    last = next;
  }
}

void BaPipeExploration::fit_memory(const StageCosts& costs,
                                   const StageEnds& ends, const Orders& orders,
                                   bool links) {
  const StageEnds repaired = repaired_for_memory(costs, ends);
  if (repaired != ends) try_ends(costs, repaired, "memory, moved layers");
  const PartitionRules rules{.links = links, .memory = true};
  std::vector<Bytes> missed;
  for (int round = 0; round < kMemoryRounds; ++round) {
    const auto exact = best_order(costs.blocks(), problem_, costs.schedule(),
                                  orders, rules, missed);
    if (!exact) {
      if (round == 0)
        remarks_.push_back(
            to_text(costs.schedule()) + " with microbatches of " +
            std::to_string(costs.blocks().microbatch()) +
            ": no partition of whole layers fits by the memory formula");
      return;
    }
    const std::size_t i = try_ends(exact->costs, exact->ends, "memory, exact");
    const BaPipeCandidate& tried = candidates_[i];
    if (tried.fits || !tried.planned) return;
    missed.resize(exact->ends.size());
    for (int s = 0; s < exact->costs.num_stages(); ++s) {
      const Bytes formula =
          exact->costs.memory(s, first_of(exact->ends, s), exact->ends[at(s)]);
      missed[at(s)] +=
          std::max(Bytes(0), tried.planned->estimate.memory[at(s)] - formula);
    }
  }
}

void BaPipeExploration::try_split(const StageCosts& costs,
                                  const StageEnds& ends) {
  const Seconds whole = largest_cost(costs, {}, ends);
  const auto split =
      split_partition(costs, *problem_.profile, may_split_, whole);
  if (!split || split->num_split == 0) return;
  const auto stages = split_stages(costs, *model_, *split);
  if (!stages) return;
  const std::string model =
      with_splits(problem_.profile->model, stages->splits);
  const auto profile =
      with_splits(*problem_.profile, model, problem_.cluster->kinds());
  BaPipeCandidate candidate;
  candidate.schedule = to_text(costs.schedule());
  candidate.partition = "intra-layer";
  candidate.microbatch = costs.blocks().microbatch();
  if (!profile) {
    candidate.refusal = profile.error().message;
  } else {
    Problem problem = problem_;
    problem.profile = &*profile;
    problem.estimate = problem_.estimator_for(*profile, *problem_.cluster,
                                              problem_.memory_limit);
    complete(candidate, pipeline_of_ends(costs, stages->ends), problem);
  }
  if (candidate.planned) {
    candidate.planned->bottleneck = split->bottleneck;
    candidate.planned->promised = split->promised;
  }
  remarks_.push_back(
      candidate.schedule + " with microbatches of " +
      std::to_string(candidate.microbatch) +
      ", intra-layer: split=" + pipewright::to_text(stages->splits) +
      "; slowest stage from " + pipewright::to_text(whole) + " to " +
      pipewright::to_text(split->bottleneck));
  candidates_.push_back(std::move(candidate));
  stages_.emplace_back();
}

std::size_t BaPipeExploration::try_ends(const StageCosts& costs,
                                        const StageEnds& ends,
                                        const std::string& partition) {
  Stages stages{costs.schedule(), costs.blocks().microbatch(), costs.devices(),
                ends};
  for (std::size_t i = 0; i < stages_.size(); ++i)
    if (stages_[i] == stages) return i;
  BaPipeCandidate candidate;
  candidate.schedule = to_text(costs.schedule());
  candidate.partition = partition;
  candidate.microbatch = costs.blocks().microbatch();
  candidate.link_limits = some_link_limits(costs, ends);
  complete(candidate, explored_pipeline(costs, ends), problem_);
  if (candidate.planned) {
    candidate.planned->bottleneck = bottleneck_of(costs, ends);
    candidate.planned->promised = promised_step(costs, ends);
  }
  candidates_.push_back(std::move(candidate));
  stages_.emplace_back(std::move(stages));
  return candidates_.size() - 1;
}

void BaPipeExploration::try_data_parallelism(int microbatch) {
  BaPipeCandidate candidate;
  candidate.schedule = "data-parallel";
  candidate.partition = "whole model";
  candidate.microbatch = microbatch;
  Pipeline pipeline;
  pipeline.microbatch = microbatch;
  pipeline.stages.push_back({problem_.profile->num_layers(), -1, {}, false});
  const int devices = problem_.cluster->num_devices();
  for (int d = 0; d < devices; ++d)
    pipeline.stages[0].devices.push_back(DeviceId(d));
  if (microbatch < devices)
    candidate.refusal = std::to_string(microbatch) +
                        " samples cannot be split over " +
                        std::to_string(devices) + " devices";
  else
    complete(candidate, pipeline, problem_);
  candidates_.push_back(std::move(candidate));
  stages_.emplace_back();
}

void BaPipeExploration::complete(BaPipeCandidate& candidate,
                                 const Pipeline& pipeline,
                                 const Problem& problem) const {
  Result<Planned> result = planned(pipeline, problem, planner_);
  if (!result) {
    candidate.refusal = result.error().message;
    return;
  }
  candidate.planned = *std::move(result);
  check_memory(candidate);
}

void BaPipeExploration::check_memory(BaPipeCandidate& candidate) const {
  const Planned& own = *candidate.planned;
  candidate.fits = own.estimate.fits;
  Bytes worst;
  for (std::size_t w = 0; w < own.estimate.memory.size(); ++w) {
    const DeviceId device = own.plan.devices[w];
    const Bytes has = problem_.memory_of(device),
                needs = own.estimate.memory[w];
    candidate.largest_memory = std::max(candidate.largest_memory, needs);
    if (needs <= has || needs - has <= worst) continue;
    candidate.fits = false;
    worst = needs - has;
    candidate.memory_verdict =
        problem_.cluster->devices()[device.index()].name + " needs " +
        to_text(needs) + " of " + to_text(has);
  }
}

Result<Planned> BaPipeExploration::best() const {
  const BaPipeCandidate* chosen = nullptr;
  for (const BaPipeCandidate& candidate : candidates_)
    if (candidate.fits && (!chosen || is_better(candidate, *chosen)))
      chosen = &candidate;
  if (!chosen) return nothing_fits();
  Planned result = *chosen->planned;
  result.notes = candidate_table(candidates_, *chosen, problem_.minibatch);
  result.notes.insert(result.notes.end(), remarks_.begin(), remarks_.end());
  result.why = explanation(candidates_, *chosen);
  return result;
}

Error BaPipeExploration::nothing_fits() const {
  const BaPipeCandidate* smallest = nullptr;
  std::string refusal = "no microbatch size is given";
  for (const BaPipeCandidate& candidate : candidates_) {
    if (!candidate.planned)
      refusal = candidate.refusal;
    else if (!smallest || candidate.largest_memory < smallest->largest_memory)
      smallest = &candidate;
  }
  if (!smallest) return bad_configuration(refusal);
  return pipewright::nothing_fits(problem_, *smallest->planned);
}

}  // namespace pipewright
