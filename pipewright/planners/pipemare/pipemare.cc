// PipeMare: the requested number of stages, asynchronous, without copies of
// weights.
//
// Yang et al., "PipeMare: Asynchronous Pipeline Parallel DNN Training", MLSys
// 2021 (arXiv 1910.05124). The paper has one weight tensor per stage and gives
// no partitioning method. Ours: stages balanced by time, and several stages per
// device. If memory is short, stages recompute (pipemare_segments.h).

#include <algorithm>
#include <optional>

#include "pipewright/base/index.h"
#include "pipewright/base/text.h"
#include "pipewright/planners/bounds/bounds.h"
#include "pipewright/planners/pipemare/pipemare_cuts.h"
#include "pipewright/planners/pipemare/pipemare_report.h"
#include "pipewright/planners/pipemare/pipemare_segments.h"
#include "pipewright/planners/planner_registry.h"
#include "pipewright/planners/refusal.h"
#include "pipewright/schedules/async_deep.h"
#include "pipewright/schedules/generator.h"

namespace pipewright {
namespace {

bool has_several_per_worker(const DeepStages& stages) {
  return stages.ends.size() != stages.stages_of.size();
}

Result<Schedule> schedule_of(const DeepStages& stages, int microbatches) {
  if (has_several_per_worker(stages))
    return async_deep_schedule(stages.stages_of, microbatches);
  ScheduleRequest request;
  request.workers = static_cast<int>(stages.ends.size());
  request.microbatches = microbatches;
  return generate_schedule("async-1f1b", request);
}

Result<Plan> deep_plan(const DeepStages& stages, const Problem& problem,
                       int microbatch) {
  Plan plan;
  plan.model = problem.profile->model;
  plan.planner = "pipemare";
  plan.method = problem.method;
  plan.minibatch = problem.minibatch;
  plan.microbatch = microbatch;
  plan.optimizer_words = problem.optimizer_words;
  plan.schedule_name =
      has_several_per_worker(stages) ? "async-deep" : "async-1f1b";
  PIPEWRIGHT_TRY(plan.schedule, schedule_of(stages, plan.num_microbatches()));
  int layer = 0;
  std::size_t s = 0;
  for (std::size_t w = 0; w < stages.stages_of.size(); ++w) {
    plan.devices.push_back(DeviceId(w));
    for (int i = 0; i < stages.stages_of[w]; ++i, ++s) {
      Stage stage;
      for (; layer < stages.ends[s]; ++layer)
        stage.forward.push_back(LayerId(layer));
      stage.backward = stage.forward;
      stage.workers = {WorkerId(w)};
      plan.stages.push_back(std::move(stage));
    }
  }
  if (Result<void> checked = check_plan(plan, *problem.profile); !checked)
    return checked.error();
  return plan;
}

class PipeMarePlanner : public Planner {
 public:
  std::string name() const override { return "pipemare"; }
  std::string summary() const override {
    return "the requested number of stages, asynchronous, no copies of weights";
  }
  std::string source() const override {
    return "PipeMare: Asynchronous Pipeline Parallel DNN Training, MLSys 2021";
  }
  PlanningEffort effort() const override { return PlanningEffort::Linear; }

  Result<Planned> plan(const Problem& problem) const override {
    if (problem.method != Method::PipeMare && problem.method != Method::Naive)
      return bad_configuration(
          "pipemare plans for the methods pipemare and naive, not for \"" +
              to_text(problem.method) + "\"",
          "use --method pipemare");
    std::optional<Planned> best;
    std::optional<Error> refusal;
    for (int microbatch : problem.microbatches) {
      if (best && problem.is_over()) break;
      Result<Planned> candidate = plan_at(problem, microbatch);
      if (!candidate)
        refusal = candidate.error();
      else if (!best || candidate->estimate.step < best->estimate.step)
        best = *std::move(candidate);
    }
    if (best) return *std::move(best);
    return refusal ? *refusal
                   : bad_configuration("no microbatch size is given");
  }

 private:
  static int num_stages(const Problem& problem) {
    if (problem.stages > 0) return problem.stages;
    return std::min(problem.cluster->num_devices(),
                    problem.profile->num_layers());
  }

  Result<Planned> plan_at(const Problem& problem, int microbatch) const {
    PIPEWRIGHT_TRY(const DeepStages stages,
                   deep_stages(problem, microbatch, num_stages(problem)));
    PIPEWRIGHT_TRY(
        const CostTable costs,
        CostTable::create(*problem.profile, *problem.cluster, microbatch));
    PIPEWRIGHT_TRY(const Plan keeping, deep_plan(stages, problem, microbatch));
    const DepthCosts depth =
        depth_costs(costs, stages.ends, keeping.num_microbatches(),
                    problem.optimizer_words, Slots::Alternate);
    Planned result;
    // The segment length with the smallest sum may not be the one with the
    // smallest peak of a device.
    for (const int segment : {0, depth.segment, 1}) {
      result.plan = keeping;
      if (segment > 0) {
        PIPEWRIGHT_TRY(result.plan, recomputing(keeping, segment));
      }
      PIPEWRIGHT_TRY(result.estimate, problem.estimate(result.plan));
      if (result.estimate.fits) break;
    }
    if (!result.estimate.fits) return too_large(problem, result);
    describe(result, stages, costs, depth, problem);
    return result;
  }

  static std::string recomputation_text(const Plan& plan, int segment) {
    if (has_segments(plan))
      return ", recomputed in segments of " + std::to_string(segment) +
             " stages";
    return plan.stages[0].recompute ? ", recomputed from each stage's input"
                                    : "";
  }

  static Error too_large(const Problem& problem, const Planned& result) {
    return nothing_fits(problem, result.plan.planner, {},
                        shortage_of(result, problem));
  }

  // The planner's own cost model: the work of the slowest worker, without
  // waiting.
  static void describe(Planned& result, const DeepStages& stages,
                       const CostTable& costs, const DepthCosts& depth,
                       const Problem& problem) {
    const auto& devices = problem.cluster->devices();
    int stage = 0, first = 0;
    Seconds slowest;
    for (std::size_t w = 0; w < stages.stages_of.size(); ++w) {
      stage += stages.stages_of[w];
      const std::size_t last = at(stage - 1);
      const int end = stages.ends[last];
      const int kind = devices[w].kind;
      Seconds load = costs.compute(kind, first, end);
      if (result.plan.stages[last].recompute)
        load += costs.forward(kind, first, end);
      slowest = std::max(slowest, load);
      first = end;
    }
    const double microbatches = result.plan.num_microbatches();
    result.bottleneck = slowest;
    result.promised = slowest * microbatches;
    result.lower_bound = lower_bound(problem);
    const int P = static_cast<int>(stages.ends.size());
    result.why = std::to_string(P) + " stages on " +
                 std::to_string(stages.stages_of.size()) +
                 " workers that never drain; weights are delayed by up to " +
                 to_text((P - 1) / microbatches) + " steps" +
                 recomputation_text(result.plan, depth.segment);
    for (const MethodCost& method : depth.methods)
      result.notes.push_back(method.name + ": weights " +
                             to_text(method.weights) + ", activations " +
                             to_text(method.activations) + ", utilisation " +
                             to_text(method.utilisation));
    result.notes.push_back("recompute would use segments of " +
                           std::to_string(depth.segment) + " stages");
  }
};

}  // namespace

std::unique_ptr<Planner> pipemare_planner() {
  return std::make_unique<PipeMarePlanner>();
}

}  // namespace pipewright
