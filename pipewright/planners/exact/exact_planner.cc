// The exact planner: stages from the best chain of downsets (exact.h). A
// stage's layers need not be neighbours in the profile's order.
//
// The objective is that of Tarnawski et al., "Efficient Algorithms for Device
// Placement of DNN Graph Operators", NeurIPS 2020: the largest load per
// microbatch, which decides a long steady state. It ignores filling, draining
// and transfers that overlap compute; the estimator counts them. Ours: memory
// is counted as 1F1B keeps it, and the limit is lowered where the simulated
// peak exceeds it.

#include <algorithm>
#include <optional>

#include "pipewright/base/text.h"
#include "pipewright/planners/bounds/bounds.h"
#include "pipewright/planners/exact/exact_profile.h"
#include "pipewright/planners/pipeline.h"
#include "pipewright/planners/planner_registry.h"
#include "pipewright/planners/refusal.h"

namespace pipewright {
namespace {

// A few seconds; then the best chain found so far, reported as unproven.
constexpr std::int64_t kMaxSearchSteps = 60'000'000, kMaxDownsets = 500'000;

// Makes a plan with as many layers per stage, then replaces the layers by those
// of the chain. The chain is of the reversed graph.
Result<Plan> plan_of_chain(const Problem& problem, int microbatch,
                           const std::vector<ChainPart>& parts) {
  Pipeline pipeline;
  pipeline.microbatch = microbatch;
  if (is_asynchronous(problem.method)) pipeline.schedule = "async-1f1b";
  const std::size_t num_stages = parts.size();
  int end = 0;
  for (std::size_t s = 0; s < num_stages; ++s) {
    end += static_cast<int>(parts[num_stages - 1 - s].nodes.size());
    pipeline.stages.push_back({end, -1, {DeviceId(s)}, false});
  }
  PIPEWRIGHT_TRY(Plan plan, plan_of(pipeline, problem, "exact"));
  for (std::size_t s = 0; s < num_stages; ++s) {
    Stage& stage = plan.stages[s];
    stage.forward.clear();
    for (int layer : parts[num_stages - 1 - s].nodes)
      stage.forward.push_back(LayerId(layer));
    stage.backward = stage.forward;
  }
  if (Result<void> checked = check_plan(plan, *problem.profile); !checked)
    return checked.error();
  return plan;
}

constexpr const char* kMoreOrLarger =
    "use more devices, smaller microbatches, or a planner that recomputes";

Error no_stages_fit(const ChainProblem& chain) {
  double all = 0, largest = 0;
  for (const ChainNode& node : chain.nodes) {
    all += node.size + node.kept;
    largest = std::max(largest, node.size + node.kept);
  }
  const auto bytes = [](double size) {
    return to_text(Bytes(static_cast<std::int64_t>(size)));
  };
  return bad_configuration("no chain of stages fits " + bytes(chain.limit) +
                               " on " + std::to_string(chain.num_accelerators) +
                               " devices: all layers take at least " +
                               bytes(all) + ", the largest layer " +
                               bytes(largest),
                           kMoreOrLarger);
}

class ExactPlanner : public Planner {
 public:
  std::string name() const override { return "exact"; }
  std::string summary() const override {
    return "smallest largest load over chains of downsets of the graph, proven";
  }
  std::string source() const override {
    return "objective: Tarnawski et al., Efficient Algorithms for Device "
           "Placement of DNN Graph Operators, NeurIPS 2020; search: ours";
  }
  PlanningEffort effort() const override { return PlanningEffort::Search; }

  Result<Planned> plan(const Problem& problem) const override {
    std::optional<Planned> best;
    std::optional<Error> refusal;
    for (int microbatch : problem.microbatches) {
      if ((best || refusal) && problem.is_over()) break;
      Result<Planned> candidate = plan_at(problem, microbatch);
      if (!candidate) {
        refusal = candidate.error();
        continue;
      }
      if (!best || candidate->estimate.step < best->estimate.step)
        best = *std::move(candidate);
    }
    if (!best && refusal && refusal->hint == kMoreOrLarger)
      refusal->hint =
          more_devices_hint(problem, name()) + ", or a planner that recomputes";
    if (!best)
      return refusal ? *refusal
                     : bad_configuration("no microbatch size is given");
    best->lower_bound = lower_bound(problem);
    return *std::move(best);
  }

 private:
  // Sizes in the chain problem are lower bounds, so the simulated peak may
  // exceed the limit. Then the search is repeated with a lower limit.
  Result<Planned> plan_at(const Problem& problem, int microbatch) const {
    PIPEWRIGHT_TRY(ChainProblem chain, chain_problem(problem, microbatch));
    const double limit = chain.limit;
    std::optional<Error> refusal;
    constexpr int kTries = 6;
    for (int attempt = 0; attempt < kTries; ++attempt) {
      if (attempt > 0 && problem.is_over()) break;
      Result<ChainSolution> solution =
          best_chain(chain, {kMaxSearchSteps, kMaxDownsets, problem.is_over_});
      if (!solution)
        return chain.nodes.size() > kMaxChainNodes ? solution.error()
                                                   : no_stages_fit(chain);
      PIPEWRIGHT_TRY(Planned found, estimated(problem, microbatch, *solution));
      if (found.estimate.fits) return found;
      double peak = 0;
      for (Bytes memory : found.estimate.memory)
        peak = std::max(peak, static_cast<double>(memory.value()));
      chain.limit *= std::min(0.95, limit / peak);
    }
    chain.limit = limit;
    return no_stages_fit(chain);
  }

  Result<Planned> estimated(const Problem& problem, int microbatch,
                            const ChainSolution& solution) const {
    Planned found;
    PIPEWRIGHT_TRY(found.plan,
                   plan_of_chain(problem, microbatch, solution.parts));
    PIPEWRIGHT_TRY(found.estimate, problem.estimate(found.plan));
    found.bottleneck = Seconds(solution.load);
    const int stages = static_cast<int>(solution.parts.size());
    const int microbatches = problem.minibatch / microbatch;
    found.promised = Seconds(solution.load * (is_asynchronous(problem.method)
                                                  ? microbatches
                                                  : microbatches + stages - 1));
    const std::string load = to_text(Seconds(solution.load));
    found.why = solution.proven
                    ? "no chain of stages has a largest load below " + load +
                          " per microbatch (proven over " +
                          with_thousands(solution.downsets) + " downsets)"
                    : "the best chain found has a largest load of " + load +
                          " per microbatch; none is below " +
                          to_text(Seconds(solution.lower_bound));
    return found;
  }
};

}  // namespace

std::unique_ptr<Planner> exact_planner() {
  return std::make_unique<ExactPlanner>();
}

}  // namespace pipewright
