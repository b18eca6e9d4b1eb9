#include "pipewright/planners/auto/auto_search.h"

#include <algorithm>

#include "pipewright/planners/auto/auto_moves.h"
#include "pipewright/planners/auto/auto_shapes.h"
#include "pipewright/planners/parallel.h"
#include "pipewright/planners/state_memory.h"

namespace pipewright {
namespace {

constexpr std::size_t kMaxKept = 32;

// The approximate effort of lowering and simulating a pipeline: its actions,
// and the layers of every device.
double actions_of(const Pipeline& pipeline, const Problem& problem) {
  double replicas = 0, layers = 0;
  int first = 0;
  for (const PipelineStage& stage : pipeline.stages) {
    const auto devices = static_cast<double>(stage.devices.size());
    replicas += devices;
    layers += devices * (stage.end - first);
    first = stage.end;
  }
  const double rounds = is_asynchronous(problem.method) ? 6 : 1;
  return 2 * rounds * replicas * (problem.minibatch / pipeline.microbatch) +
         layers;
}

// Whether the layers are `next` and those that follow; moves `next` past them.
bool are_consecutive(const std::vector<LayerId>& layers, int& next) {
  for (LayerId layer : layers)
    if (layer.value != next++) return false;
  return true;
}

}  // namespace

std::optional<Pipeline> pipeline_of_plan(const Plan& plan) {
  Pipeline pipeline;
  pipeline.microbatch = plan.microbatch;
  pipeline.schedule = plan.schedule_name;
  pipeline.replication = plan.replication;
  int next = 0, next_backward = 0;
  std::size_t workers = 0;
  for (const Stage& stage : plan.stages) {
    if (stage.forward.empty() || !are_consecutive(stage.forward, next) ||
        !are_consecutive(stage.backward, next_backward))
      return {};
    PipelineStage same;
    same.end = next;
    if (next_backward != next) same.backward_end = next_backward;
    same.recompute = stage.recompute;
    for (WorkerId worker : stage.workers)
      same.devices.push_back(plan.devices[worker.index()]);
    workers += same.devices.size();
    pipeline.stages.push_back(std::move(same));
  }
  if (workers != plan.devices.size() || plan.schedule_name.empty()) return {};
  return pipeline;
}

AutoSearch::AutoSearch(const AutoCosts& costs, double max_actions)
    : costs_(costs), problem_(costs.problem()), actions_left_(max_actions) {}

AutoSearch::Key AutoSearch::key_of(const Pipeline& pipeline) {
  std::vector<int> numbers;
  std::vector<DeviceId> devices;
  for (const PipelineStage& stage : pipeline.stages) {
    numbers.push_back(stage.end);
    numbers.push_back(stage.backward_end);
    numbers.push_back(stage.recompute ? 1 : 0);
    numbers.push_back(static_cast<int>(stage.devices.size()));
    devices.insert(devices.end(), stage.devices.begin(), stage.devices.end());
  }
  return {pipeline.microbatch,  pipeline.schedule,  pipeline.stages_per_worker,
          pipeline.replication, std::move(numbers), std::move(devices)};
}

bool AutoSearch::search_all(std::vector<Pipeline> pipelines,
                            const std::string& origin) {
  std::stable_sort(pipelines.begin(), pipelines.end(),
                   [&](const Pipeline& a, const Pipeline& b) {
                     return costs_.busiest(a) < costs_.busiest(b);
                   });
  // In small batches, so that the best found so far rules out many of the rest.
  constexpr std::size_t kAtOnce = 16;
  for (std::size_t i = 0; i < pipelines.size(); i += kAtOnce) {
    const std::size_t end = std::min(pipelines.size(), i + kAtOnce);
    add({pipelines.begin() + static_cast<std::ptrdiff_t>(i),
         pipelines.begin() + static_cast<std::ptrdiff_t>(end)},
        origin);
  }
  return !cut_short_ && !exhausted_;
}

std::vector<Pipeline> AutoSearch::untried(std::vector<Pipeline> pipelines,
                                          Seconds known_step) {
  std::vector<Pipeline> some;
  for (Pipeline& pipeline : pipelines) {
    if (costs_.busiest(pipeline) >= known_step.value() ||
        states_exceed_memory(pipeline, problem_))
      continue;
    const double actions = actions_of(pipeline, problem_);
    if (!tried_.insert(key_of(pipeline)).second) continue;
    if (actions > actions_left_) {
      exhausted_ = true;
      continue;
    }
    actions_left_ -= actions;
    some.push_back(std::move(pipeline));
  }
  return some;
}

std::vector<std::optional<Planned>> AutoSearch::score(
    std::vector<Pipeline>& pipelines) {
  std::vector<std::optional<Planned>> answers(pipelines.size());
  std::vector<char> skipped(pipelines.size(), 0);
  in_parallel(pipelines.size(), problem_.threads, [&](std::size_t i) {
    // The very first is always tried, so that there is a result.
    skipped[i] = problem_.is_over() && (num_scored_ > 0 || i > 0);
    if (skipped[i]) return;
    if (!pipelines[i].times.empty()) costs_.set_times(pipelines[i]);
    Result<Planned> result = planned(pipelines[i], problem_, "auto");
    if (result && result->estimate.fits &&
        problem_.has_required_stages(result->plan))
      answers[i] = *std::move(result);
  });
  num_scored_ += static_cast<std::int64_t>(pipelines.size());
  for (char skip : skipped) cut_short_ = cut_short_ || skip != 0;
  return answers;
}

void AutoSearch::sort_and_trim() {
  std::stable_sort(found_.begin(), found_.end(),
                   [](const AutoPlan& a, const AutoPlan& b) {
                     return a.planned.estimate.step < b.planned.estimate.step;
                   });
  if (found_.size() > kMaxKept) found_.resize(kMaxKept);
}

void AutoSearch::add(AutoPlan plan) {
  if (plan.pipeline) tried_.insert(key_of(*plan.pipeline));
  found_.push_back(std::move(plan));
  sort_and_trim();
}

void AutoSearch::add(std::vector<Pipeline> pipelines,
                     const std::string& origin) {
  std::vector<Pipeline> some =
      untried(std::move(pipelines),
              found_.empty() ? Seconds::max() : best().planned.estimate.step);
  auto answers = score(some);
  for (std::size_t i = 0; i < some.size(); ++i)
    if (answers[i])
      found_.push_back({std::move(some[i]), *std::move(answers[i]), origin});
  sort_and_trim();
}

std::optional<AutoPlan> AutoSearch::best_of(std::vector<Pipeline> pipelines,
                                            const AutoPlan& before) {
  std::vector<Pipeline> some =
      untried(std::move(pipelines), before.planned.estimate.step);
  auto answers = score(some);
  std::size_t best = some.size();
  for (std::size_t i = 0; i < some.size(); ++i)
    if (answers[i] && (best == some.size() || answers[i]->estimate.step <
                                                  answers[best]->estimate.step))
      best = i;
  if (best == some.size()) return {};
  return AutoPlan{std::move(some[best]), *std::move(answers[best]),
                  before.origin};
}

std::vector<AutoPlan> AutoSearch::best_few(std::size_t max_count) const {
  std::vector<AutoPlan> first, rest;
  std::set<std::size_t> lengths;
  for (const AutoPlan& plan : found_) {
    if (!plan.pipeline) continue;
    const bool is_new = lengths.insert(plan.pipeline->stages.size()).second;
    (is_new ? first : rest).push_back(plan);
  }
  first.insert(first.end(), rest.begin(), rest.end());
  first.resize(std::min(first.size(), max_count));
  return first;
}

void AutoSearch::reschedule(std::size_t max_count) {
  for (const AutoPlan& base : best_few(max_count)) {
    std::vector<Pipeline> others = rescheduled(*base.pipeline, costs_);
    const std::vector<Pipeline> recomputed = with_recompute(others);
    others.insert(others.end(), recomputed.begin(), recomputed.end());
    add(std::move(others), base.origin);
  }
}

AutoPlan AutoSearch::improved(AutoPlan plan) {
  for (bool is_better = true; is_better;) {
    is_better = false;
    for (Move move : auto_moves()) {
      std::optional<AutoPlan> next =
          best_of(move(*plan.pipeline, costs_), plan);
      if (!next || next->planned.estimate.step >= plan.planned.estimate.step)
        continue;
      plan = *std::move(next);
      is_better = true;
    }
  }
  return plan;
}

void AutoSearch::improve(std::size_t max_count) {
  const std::vector<AutoPlan> starts = best_few(max_count);
  const double each =
      actions_left_ / std::max<double>(1, double(starts.size()));
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const double left_for_others =
        each * static_cast<double>(starts.size() - 1 - i);
    const double reserved = std::min(left_for_others, actions_left_);
    actions_left_ -= reserved;
    found_.push_back(improved(starts[i]));
    actions_left_ += reserved;
  }
  sort_and_trim();
}

}  // namespace pipewright
