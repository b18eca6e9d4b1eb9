// Bi-Partition: different cut positions for forward and backward, so that the
// workers' total loads are nearly equal even if layers are uneven.
//
// Cui et al., "A bidirectional DNN partition mechanism for efficient pipeline
// parallel training in cloud", J. Cloud Computing 12:22, 2023. The idea of
// separate cuts is the paper's. Ours: what must move between the workers, the
// search, the memory model and the bound.
//
// Replicas are not searched: the cost of a boundary would depend on the replica
// counts of both sides, which multiplies the states of the exact table. Of more
// than 600 layers neighbours are merged, and the plan says so.
//
// Separate cuts cost traffic and depend on measured times. If they gain less
// than the noise of a profile, the best plan with equal cuts is returned.

#include "pipewright/planners/bi_partition/bi_partition.h"

#include <algorithm>
#include <optional>

#include "pipewright/base/index.h"
#include "pipewright/base/infinity.h"
#include "pipewright/base/text.h"
#include "pipewright/planners/bi_partition/bi_partition_search.h"
#include "pipewright/planners/bounds/bounds.h"
#include "pipewright/planners/pipeline.h"
#include "pipewright/planners/planner_registry.h"
#include "pipewright/planners/refusal.h"

namespace pipewright {
namespace {

constexpr const char* kMoreDevices = "use smaller microbatches or more devices";
constexpr double kProfileNoise = 0.02;
constexpr double kNoLimit = kInfinity;

// A plan found at one microbatch size, before and after it was simulated.
struct Found {
  BiPartition cuts;
  double score = 0;  // of a step, by the planner's own costs
  Planned planned;
};

// The best plan with equal cuts at one microbatch size, if any fits.
struct LayerWise {
  int microbatch = 1;
  std::optional<Found> found;
  double limit = kNoLimit;  // separate cuts must promise less

  double score() const { return found ? found->score : kNoLimit; }
};

// A synchronous pipeline fills and drains once per step.
double step_of(const Problem& problem, const BiPartitionCosts& costs,
               int stages, double bottleneck) {
  const int filling = problem.method == Method::Sync ? stages - 1 : 0;
  return (costs.microbatches() + filling) * bottleneck;
}

int max_stages(const Problem& problem, const BiPartitionCosts& costs) {
  // With more, 2bw would read versions that do not exist yet.
  if (problem.method == Method::TwoBw)
    return std::min(costs.num_workers(), costs.microbatches() + 1);
  return costs.num_workers();
}

Pipeline split_pipeline(const BiPartition& found, const BiPartitionCosts& costs,
                        int microbatch, const std::string& schedule) {
  Pipeline pipeline;
  pipeline.microbatch = microbatch;
  pipeline.schedule = schedule;
  const int first = costs.num_workers() - found.num_stages();
  for (int s = 0; s < found.num_stages(); ++s) {
    const CutPair end = found.cuts[at(s + 1)];
    pipeline.stages.push_back({costs.layer_at(end.x),
                               costs.layer_at(end.y),
                               {DeviceId(first + s)},
                               found.recompute[at(s)]});
  }
  return pipeline;
}

std::string percent(double share) { return to_text(100 * share) + " %"; }

class BiPartitionPlanner : public Planner {
 public:
  explicit BiPartitionPlanner(int band) : band_(band) {}

  std::string name() const override { return "bi-partition"; }
  std::string summary() const override {
    return "separate cuts for forward and backward, where that is faster; one "
           "device per stage, no replicas";
  }
  std::string source() const override {
    return "A bidirectional DNN partition mechanism for efficient pipeline "
           "parallel training in cloud, J. Cloud Computing 12:22, 2023";
  }
  PlanningEffort effort() const override { return PlanningEffort::Search; }

  Result<Planned> plan(const Problem& problem) const override {
    if (problem.method != Method::Sync && problem.method != Method::Stash &&
        problem.method != Method::TwoBw)
      return bad_configuration("bi-partition does not support the method \"" +
                                   to_text(problem.method) + "\"",
                               "use sync, stash or 2bw");
    std::vector<LayerWise> starts;
    Seconds lower_bound = Seconds::max();
    for (int microbatch : problem.microbatches) {
      if (problem.is_over() && !starts.empty()) break;
      PIPEWRIGHT_TRY(const Seconds work, work_bound(problem, microbatch));
      lower_bound = std::min(lower_bound, work);
      PIPEWRIGHT_TRY(LayerWise start, layer_wise(problem, microbatch));
      starts.push_back(std::move(start));
    }
    std::stable_sort(starts.begin(), starts.end(),
                     [](const LayerWise& a, const LayerWise& b) {
                       return a.score() < b.score();
                     });
    PIPEWRIGHT_TRY(Planned best, best_of(problem, starts));
    // The work bound takes one device, the fastest, for all layers.
    best.lower_bound = std::min(lower_bound, pipewright::lower_bound(problem));
    return best;
  }

 private:
  // All work, shared evenly by the fastest devices.
  static Result<Seconds> work_bound(const Problem& problem, int microbatch) {
    BiPartitionOptions options;
    options.band = 0;
    double least = kNoLimit;
    PIPEWRIGHT_TRY(const BiPartitionCosts costs,
                   BiPartitionCosts::create(problem, microbatch, options));
    for (int k = 0; k < costs.num_workers(); ++k)
      least = std::min(least, costs.forward(k, 0, costs.num_units()) +
                                  costs.backward(k, 0, costs.num_units()));
    return Seconds(least * costs.microbatches() /
                   problem.cluster->num_devices());
  }

  Result<LayerWise> layer_wise(const Problem& problem, int microbatch) const {
    LayerWise start;
    start.microbatch = microbatch;
    BiPartitionOptions equal;
    equal.band = 0;
    PIPEWRIGHT_TRY(start.found, searched(problem, microbatch, equal, kNoLimit));
    start.limit = start.score();
    if (start.found) return start;
    // At most four times as slow as the best plan without a memory limit.
    equal.memory_share = 1e6;
    PIPEWRIGHT_TRY(const BiPartitionCosts no_memory_limit,
                   BiPartitionCosts::create(problem, microbatch, equal));
    const std::optional<Found> unlimited =
        best_cuts(problem, no_memory_limit, kNoLimit);
    if (unlimited) start.limit = 4 * unlimited->score;
    return start;
  }

  // `starts` are sorted by what their equal cuts promise. Separate cuts are
  // searched only below the best promise so far.
  Result<Planned> best_of(const Problem& problem,
                          std::vector<LayerWise>& starts) const {
    std::optional<Planned> best;
    std::optional<Error> refusal;
    std::vector<std::string> notes;
    double promised = kNoLimit;
    for (LayerWise& start : starts) {
      start.limit = std::min(start.limit, promised);
      Result<Planned> candidate = plan_at(problem, start);
      if (!candidate) {
        refusal = candidate.error();
        continue;
      }
      promised = std::min(promised, candidate->promised.value());
      for (const std::string& note : candidate->notes) notes.push_back(note);
      if (!best || candidate->estimate.step < best->estimate.step)
        best = *std::move(candidate);
    }
    if (!best && refusal && refusal->hint == kMoreDevices)
      refusal->hint = more_devices_hint(problem, name());
    if (!best)
      return refusal ? *refusal
                     : bad_configuration("no microbatch size is given");
    best->notes = std::move(notes);
    return *std::move(best);
  }

  Result<Planned> plan_at(const Problem& problem,
                          const LayerWise& start) const {
    const int microbatch = start.microbatch;
    const std::optional<Found>& layer_wise = start.found;
    BiPartitionOptions split;
    split.band = band_;
    split.is_over = problem.is_over_;
    std::optional<Found> apart;
    if (!problem.is_over()) {
      PIPEWRIGHT_TRY(apart, searched(problem, microbatch, split, start.limit));
    }
    if (!layer_wise && !apart) return nothing_fits(problem, microbatch);
    PIPEWRIGHT_TRY(const BiPartitionCosts costs,
                   BiPartitionCosts::create(problem, microbatch, split));
    const double bound = communication_free_bound(costs);
    const auto explain = [&](const Found& found, const std::string& why) {
      return explained(found, bound, microbatch, why + merged_text(costs));
    };
    if (layer_wise && (!apart || !apart->cuts.is_split()))
      return explain(*layer_wise,
                     problem.is_over()
                         ? "the budget ended before all separate cuts for "
                           "forward and backward were tried"
                         : "separate cuts for forward and backward are no "
                           "faster");
    if (!layer_wise)
      return explain(*apart, "a plan fits the memory only with separate cuts");
    const double gain = gain_of(*layer_wise, *apart);
    const std::string gains =
        "separate cuts for forward and backward gain " + percent(gain);
    if (gain < 0)
      return explain(*layer_wise,
                     "separate cuts for forward and backward promise to be "
                     "faster, but are " +
                         percent(-gain) + " slower when simulated");
    if (gain < kProfileNoise)
      return explain(*layer_wise, gains + ", less than the noise of " +
                                      percent(kProfileNoise) + " in a profile");
    return explain(*apart, gains + " over the best equal cuts");
  }

  // By its own costs or by the simulator, whichever is smaller.
  static double gain_of(const Found& layer_wise, const Found& apart) {
    const double own = 1 - apart.score / layer_wise.score;
    const double simulated =
        1 - apart.planned.estimate.step / layer_wise.planned.estimate.step;
    return std::min(own, simulated);
  }

  static std::string merged_text(const BiPartitionCosts& costs) {
    if (costs.is_exact()) return "";
    return "; the " + std::to_string(costs.layer_at(costs.num_units())) +
           " layers are merged into " + std::to_string(costs.num_units()) +
           " units, and cuts inside a unit are not tried";
  }

  static Planned explained(const Found& found, double bound, int microbatch,
                           const std::string& why) {
    Planned planned = found.planned;
    planned.why = why;
    planned.bottleneck = Seconds(found.cuts.bottleneck);
    planned.promised = Seconds(found.score);
    const std::string prefix =
        "microbatch " + std::to_string(microbatch) + ": ";
    const Bytes extra(static_cast<std::int64_t>(found.cuts.extra_bytes));
    planned.notes = {prefix + why,
                     prefix + "bottleneck " + to_text(planned.bottleneck) +
                         ", lower bound for any cuts " +
                         to_text(Seconds(bound)) + "; " + to_text(extra) +
                         " more per microbatch than equal cuts send"};
    return planned;
  }

  // The best plan within a band, simulated. If it exceeds the memory, the
  // search is repeated with a lower limit.
  Result<std::optional<Found>> searched(const Problem& problem, int microbatch,
                                        BiPartitionOptions options,
                                        double limit) const {
    for (int attempt = 0; attempt < 6; ++attempt) {
      PIPEWRIGHT_TRY(const BiPartitionCosts costs,
                     BiPartitionCosts::create(problem, microbatch, options));
      std::optional<Found> found = best_cuts(problem, costs, limit);
      if (!found) return std::optional<Found>();
      PIPEWRIGHT_TRY(found->planned,
                     simulated(found->cuts, costs, problem, microbatch));
      if (found->planned.estimate.fits) return found;
      options.memory_share *= 0.98 * memory_ratio(found->planned, problem);
    }
    return std::optional<Found>();
  }

  static std::optional<Found> best_cuts(const Problem& problem,
                                        const BiPartitionCosts& costs,
                                        double limit) {
    const BiPartitionSearch search(costs, limit / costs.microbatches(),
                                   communication_free_bound(costs),
                                   problem.method == Method::Sync);
    std::optional<Found> best;
    int stages = 0;
    for (int k = 1; k <= max_stages(problem, costs); ++k) {
      const std::optional<double> seconds = search.bottleneck(k);
      if (!seconds) continue;
      const double score = step_of(problem, costs, k, *seconds);
      if (score >= limit || (best && score >= best->score)) continue;
      best = Found{{}, score, {}};
      stages = k;
    }
    if (best) best->cuts = *search.best(stages);
    return best;
  }

  Result<Planned> simulated(const BiPartition& cuts,
                            const BiPartitionCosts& costs,
                            const Problem& problem, int microbatch) const {
    const std::string plain =
        is_asynchronous(problem.method) ? "async-1f1b" : "1f1b";
    PIPEWRIGHT_TRY(Planned first,
                   planned(split_pipeline(cuts, costs, microbatch, plain),
                           problem, name()));
    // More microbatches in flight hide slow links, if memory and method allow
    // it: 2bw allows no more in flight than a minibatch has.
    Result<Planned> further =
        planned(split_pipeline(cuts, costs, microbatch, plain + "-so"), problem,
                name());
    if (!further) return first;
    const bool is_better =
        further->estimate.fits && further->estimate.step < first.estimate.step;
    return is_better ? *std::move(further) : first;
  }

  // The smallest ratio of a worker's memory to its simulated need; at most 1.
  static double memory_ratio(const Planned& planned, const Problem& problem) {
    double smallest = 1;
    for (std::size_t w = 0; w < planned.estimate.memory.size(); ++w)
      smallest = std::min(smallest, problem.memory_of(planned.plan.devices[w]) /
                                        planned.estimate.memory[w]);
    return smallest;
  }

  // Finds by bisection how much memory would be enough.
  static Result<Planned> nothing_fits(const Problem& problem, int microbatch) {
    BiPartitionOptions options;
    options.band = 0;
    const auto fits = [&](double share) -> Result<bool> {
      options.memory_share = share;
      PIPEWRIGHT_TRY(const BiPartitionCosts costs,
                     BiPartitionCosts::create(problem, microbatch, options));
      return best_cuts(problem, costs, kNoLimit).has_value();
    };
    double enough = 1;
    for (int i = 0; i < 20; ++i, enough *= 2) {
      PIPEWRIGHT_TRY(const bool is_enough, fits(enough));
      if (is_enough) break;
    }
    for (double step = enough / 4; step > enough / 100; step /= 2) {
      PIPEWRIGHT_TRY(const bool is_enough, fits(enough - step));
      if (is_enough) enough -= step;
    }
    const Bytes memory = problem.memory_of(DeviceId(0));
    const auto need = static_cast<double>(memory.value()) * enough;
    return bad_configuration(
        "no plan with " + std::to_string(problem.cluster->num_devices()) +
            " stages fits " + to_text(memory) +
            ": a device needs at least about " +
            to_text(Bytes(static_cast<std::int64_t>(need))) +
            ", at microbatch " + std::to_string(microbatch),
        kMoreDevices);
  }

  int band_;
};

}  // namespace

std::unique_ptr<Planner> bi_partition_planner(int band) {
  return std::make_unique<BiPartitionPlanner>(band);
}

std::unique_ptr<Planner> bi_partition_planner() {
  return bi_partition_planner(BiPartitionOptions().band);
}

}  // namespace pipewright
