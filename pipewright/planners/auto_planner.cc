// The best of all planners, and better: every other planner is a start; the
// best starts are then improved on the simulator itself, one change at a time:
// another schedule, another microbatch size, recompute on or off, a cut moved
// by a layer. Never worse than any single planner, because a start that cannot
// be improved stays as it is. The method is ours.

#include <algorithm>
#include <optional>

#include "pipewright/base/text.h"
#include "pipewright/planners/bounds.h"
#include "pipewright/planners/choice.h"
#include "pipewright/planners/list.h"
#include "pipewright/planners/pipeline.h"

namespace pipewright {
namespace {

constexpr std::size_t kStarts = 3;   // improved, of those that planners give
constexpr int kMostEstimates = 400;  // per start

// A plan as the pipeline it came from; none if its stages are not runs of
// layers with one cut for both directions, or share devices.
std::optional<Pipeline> pipeline_of_plan(const Plan& plan) {
  Pipeline pipeline;
  pipeline.microbatch = plan.microbatch;
  pipeline.schedule = plan.schedule_name;
  pipeline.replication = plan.replication;
  int next = 0;
  std::size_t workers = 0;
  for (const Stage& stage : plan.stages) {
    if (stage.forward != stage.backward || stage.forward.empty()) return {};
    for (LayerId layer : stage.forward)
      if (layer.value != next++) return {};
    PipelineStage made;
    made.end = next;
    made.recompute = stage.recompute;
    for (WorkerId worker : stage.workers)
      made.devices.push_back(plan.devices[worker.index()]);
    workers += made.devices.size();
    pipeline.stages.push_back(std::move(made));
  }
  if (workers != plan.devices.size() || plan.schedule_name.empty()) return {};
  return pipeline;
}

class Improvement {
 public:
  Improvement(const Problem& problem, const Pipeline& start, Planned planned)
      : problem_(problem), pipeline_(start), best_(std::move(planned)) {}

  Planned improved() {
    while (budget_ > 0 && (try_shapes() || try_cuts())) {
    }
    return std::move(best_);
  }

 private:
  bool accept(const Pipeline& candidate) {
    if (budget_-- <= 0) return false;
    Result<Planned> scored = planned(candidate, problem_, "auto");
    if (!scored || !scored->estimate.fits ||
        scored->estimate.step >= best_.estimate.step)
      return false;
    best_ = *std::move(scored);
    pipeline_ = candidate;
    return true;
  }

  bool try_shapes() {
    bool any = false;
    if (!is_asynchronous(problem_.method))
      for (const char* schedule :
           {"1f1b", "1f1b-so", "gpipe", "zb-h1", "zb-h2", "zero-bubble"}) {
        Pipeline candidate = pipeline_;
        candidate.schedule = schedule;
        any = (schedule != pipeline_.schedule && accept(candidate)) || any;
      }
    for (int microbatch : problem_.microbatches) {
      Pipeline candidate = pipeline_;
      candidate.microbatch = microbatch;
      any = (microbatch != pipeline_.microbatch && accept(candidate)) || any;
    }
    for (std::size_t s = 0; s < pipeline_.stages.size(); ++s) {
      Pipeline candidate = pipeline_;
      candidate.stages[s].recompute = !candidate.stages[s].recompute;
      any = accept(candidate) || any;
    }
    return any;
  }

  bool try_cuts() {
    bool any = false;
    for (std::size_t s = 0; s + 1 < pipeline_.stages.size(); ++s)
      for (int move : {-1, 1, -4, 4}) {
        Pipeline candidate = pipeline_;
        int& end = candidate.stages[s].end;
        end += move;
        const int first = s == 0 ? 0 : candidate.stages[s - 1].end;
        if (end > first && end < candidate.stages[s + 1].end)
          any = accept(candidate) || any;
      }
    return any;
  }

  const Problem& problem_;
  Pipeline pipeline_;
  Planned best_;
  int budget_ = kMostEstimates;
};

struct Starts {
  std::vector<Planned> found;  // fastest first
  std::optional<Error> refusal;
};

Starts starts_of(const Problem& problem, const std::string& self) {
  Starts starts;
  for (const auto& planner : planners()) {
    if (planner->name() == self) continue;
    Result<Planned> result = planner->plan(problem);
    if (result && result->estimate.fits)
      starts.found.push_back(*std::move(result));
    else if (!result && !starts.refusal)
      starts.refusal = result.error();
  }
  std::stable_sort(starts.found.begin(), starts.found.end(),
                   [](const Planned& a, const Planned& b) {
                     return a.estimate.step < b.estimate.step;
                   });
  return starts;
}

class AutoPlanner : public Planner {
 public:
  std::string name() const override { return "auto"; }
  std::string summary() const override {
    return "the best of all planners, then improved on the simulator";
  }
  std::string source() const override { return "ours"; }

  Result<Planned> plan(const Problem& problem) const override {
    Starts starts = starts_of(problem, name());
    if (starts.found.empty())
      return starts.refusal ? *starts.refusal
                            : bad_configuration("there is no other planner");
    Planned best = starts.found.front();
    std::string origin = best.plan.planner;
    const std::size_t most = std::min(kStarts, starts.found.size());
    for (std::size_t i = 0; i < most; ++i) {
      const Planned& start = starts.found[i];
      const auto pipeline = pipeline_of_plan(start.plan);
      if (!pipeline) continue;
      Planned better = Improvement(problem, *pipeline, start).improved();
      if (better.estimate.step < best.estimate.step) {
        best = std::move(better);
        origin = start.plan.planner;
      }
    }
    return told(std::move(best), starts, origin, problem);
  }

 private:
  Planned told(Planned best, const Starts& starts, const std::string& origin,
               const Problem& problem) const {
    const double gain =
        1 - best.estimate.step / starts.found.front().estimate.step;
    best.plan.planner = name();
    best.lower_bound = lower_bound(problem);
    best.promised = best.estimate.step;
    if (best.bottleneck <= Seconds(0))
      best.bottleneck = best.promised / best.plan.num_microbatches();
    best.why = gain > 0 ? "It began as a plan of " + origin +
                              "; changes on the simulator made it " +
                              to_text(100 * gain) +
                              " % faster than the best single planner's."
                        : "It is the plan of " + origin +
                              ", which no single change made faster.";
    best.notes.clear();
    for (const Planned& start : starts.found)
      best.notes.push_back(start.plan.planner + ": " + shape_text(start.plan) +
                           ", " + to_text(start.estimate.step));
    return best;
  }
};

}  // namespace

std::unique_ptr<Planner> auto_planner() {
  return std::make_unique<AutoPlanner>();
}

}  // namespace pipewright
