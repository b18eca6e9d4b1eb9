// Bi-Partition: different cut positions for forward and backward, so that the
// workers' total loads are nearly equal even if layers are uneven.
//
// Cui et al., "A bidirectional DNN partition mechanism for efficient pipeline
// parallel training in cloud", J. Cloud Computing 12:22, 2023. The idea of
// separate cuts is the paper's. Ours: what must move between the workers, the
// search, the memory model and the bound.
//
// A stage may have only a forward or only a backward, and it may have replicas
// on consecutive devices; both are ours. On more than 16 devices replicas are
// not searched, and of more than 600 layers neighbours are merged; the plan
// says so. The plans of `balanced` and PipeDream are plans with equal cuts too,
// so they are simulated beside those of the search.
//
// Separate cuts cost traffic and depend on measured times. If they gain less
// than the noise of a profile, the best plan with equal cuts is returned.

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "pipewright/base/index.h"
#include "pipewright/base/infinity.h"
#include "pipewright/base/text.h"
#include "pipewright/planners/bi_partition/bi_partition_pipelines.h"
#include "pipewright/planners/bi_partition/bi_partition_search.h"
#include "pipewright/planners/bounds/bounds.h"
#include "pipewright/planners/pipeline.h"
#include "pipewright/planners/planner_parts.h"
#include "pipewright/planners/planner_registry.h"
#include "pipewright/planners/refusal.h"
#include "pipewright/planners/time_limit.h"

namespace pipewright {
namespace {

constexpr const char* kMoreDevices = "use smaller microbatches or more devices";
constexpr double kProfileNoise = 0.02;
constexpr double kNoLimit = kInfinity;

// With more, tables by stages and devices take too much memory and time.
constexpr int kMaxReplicaDevices = 16;
// Plans that promise nearly the best step are simulated too: many on few
// devices, where a simulation takes a millisecond.
constexpr int kMaxSimulated = 40, kMaxSimulatedOnMany = 3;
constexpr double kNearly = 1.5;

// A plan found at one microbatch size, before and after it was simulated.
struct Found {
  BiPartition cuts;  // none if the search did not find it
  double score = 0;  // of a step, by the planner's own costs
  Planned planned;

  Seconds step() const { return planned.estimate.step; }
};

// A number of stages and devices, and the best step that it promises.
struct Promise {
  double score = 0;
  int stages = 0, devices = 0;
};

// The best plan with equal cuts at one microbatch size, if any fits.
struct LayerWise {
  int microbatch = 1;
  std::optional<Found> found;
  double limit = kNoLimit;  // separate cuts must promise less

  double score() const { return found ? found->score : kNoLimit; }
};

void take_faster(std::optional<Found>& best, std::optional<Found> other) {
  if (other && (!best || other->step() < best->step())) best = std::move(other);
}

// A synchronous pipeline fills and drains once per step.
double step_of(const Problem& problem, const BiPartitionCosts& costs,
               int stages, double bottleneck) {
  const int filling = problem.method == Method::Sync ? stages - 1 : 0;
  return (costs.microbatches() + filling) * bottleneck;
}

int max_stages(const Problem& problem, const BiPartitionCosts& costs) {
  // With more, 2bw would read versions that do not exist yet.
  if (problem.method == Method::TwoBw)
    return std::min(costs.num_devices(), costs.microbatches() + 1);
  return costs.num_devices();
}

std::string percent(double share) { return to_text(100 * share) + " %"; }

class BiPartitionPlanner : public Planner {
 public:
  explicit BiPartitionPlanner(BiPartitionParts parts) : parts_(parts) {}

  std::string name() const override { return "bi-partition"; }
  std::string summary() const override {
    return "separate cuts for forward and backward, where that is faster";
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
    for (int d = 0; d < costs.num_devices(); ++d)
      least = std::min(least, costs.forward({d, 1}, 0, costs.num_units()) +
                                  costs.backward({d, 1}, 0, costs.num_units()));
    return Seconds(least * costs.microbatches() /
                   problem.cluster->num_devices());
  }

  BiPartitionOptions options_of(const Problem& problem, int band) const {
    BiPartitionOptions options;
    options.band = band;
    options.may_recompute = parts_.recompute;
    const int devices = problem.cluster->num_devices();
    if (parts_.replicas && devices <= kMaxReplicaDevices)
      options.max_replicas = devices;
    options.is_over = problem.is_over_;
    return options;
  }

  Result<LayerWise> layer_wise(const Problem& problem, int microbatch) const {
    LayerWise start;
    start.microbatch = microbatch;
    BiPartitionOptions equal = options_of(problem, 0);
    equal.is_over = {};
    PIPEWRIGHT_TRY(start.found, searched(problem, microbatch, equal, kNoLimit));
    start.limit = start.score();
    const bool has_limit = start.found.has_value();
    take_faster(start.found, known(problem, microbatch));
    if (has_limit || problem.is_over()) return start;
    // At most four times as slow as the best plan without a memory limit.
    equal.memory_shares.assign(at(problem.cluster->num_devices()), 1e6);
    PIPEWRIGHT_TRY(const BiPartitionCosts no_memory_limit,
                   BiPartitionCosts::create(problem, microbatch, equal));
    const auto unlimited =
        promises(problem, no_memory_limit, kNoLimit).promises;
    if (!unlimited.empty()) start.limit = 4 * unlimited[0].score;
    return start;
  }

  // The best of what `balanced` and PipeDream find, if any of it fits.
  std::optional<Found> known(const Problem& problem, int microbatch) const {
    std::optional<Planned> best =
        known_plan(problem, microbatch, parts_.replicas, name());
    if (!best || (!parts_.recompute && has_recompute(best->plan)))
      return std::nullopt;
    Found found;
    found.cuts.bottleneck = best->bottleneck.value();
    found.score = best->estimate.step.value();
    found.planned = *std::move(best);
    return found;
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
      if (best && problem.is_over()) break;
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
    const int band = parts_.separate_cuts ? BiPartitionOptions().band : 0;
    const BiPartitionOptions split = options_of(problem, band);
    std::optional<Found> apart;
    if (!problem.is_over()) {
      PIPEWRIGHT_TRY(apart, searched(problem, microbatch, split, start.limit));
    }
    if (!layer_wise && !apart) return nothing_fits(problem, microbatch);
    PIPEWRIGHT_TRY(const BiPartitionCosts costs,
                   BiPartitionCosts::create(problem, microbatch, split));
    const double bound = communication_free_bound(costs);
    const auto explain = [&](const Found& found, const std::string& why) {
      return explained(found, bound, microbatch,
                       why + left_out(problem, costs));
    };
    if (apart && !apart->cuts.is_split() &&
        (!layer_wise || apart->step() < layer_wise->step()))
      return explain(*apart, "equal cuts for forward and backward are fastest");
    if (layer_wise && (!apart || !apart->cuts.is_split()))
      return explain(*layer_wise,
                     problem.is_over()
                         ? ended_before(problem,
                                        "all separate cuts for forward and "
                                        "backward were tried")
                               .message
                         : "separate cuts for forward and backward are no "
                           "faster");
    if (!layer_wise)
      return explain(*apart, "a plan fits the memory only with separate cuts");
    const double gain = 1 - apart->step() / layer_wise->step();
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

  // What the search leaves out.
  std::string left_out(const Problem& problem,
                       const BiPartitionCosts& costs) const {
    std::string text;
    if (parts_.replicas && problem.cluster->num_devices() > kMaxReplicaDevices)
      text += "; on more than " + std::to_string(kMaxReplicaDevices) +
              " devices separate cuts are searched without replicas";
    if (costs.is_exact()) return text;
    return text + "; the " + std::to_string(costs.layer_at(costs.num_units())) +
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

  // The best plan within a band, simulated. Low limits make the search fast, so
  // they are tried first; higher ones as long as a plan that promises more than
  // the limit may still be faster than what the simulator has seen, and there
  // is time.
  Result<std::optional<Found>> searched(const Problem& problem, int microbatch,
                                        const BiPartitionOptions& options,
                                        double limit) const {
    std::optional<Found> best;
    PIPEWRIGHT_TRY(const BiPartitionCosts costs,
                   BiPartitionCosts::create(problem, microbatch, options));
    double here = 1.1 * communication_free_bound(costs) * costs.microbatches();
    for (int attempt = 0; attempt < 12 && here > 0; ++attempt, here *= 1.3) {
      if (attempt > 0 && problem.is_over()) return best;
      if (here >= limit) break;
      PIPEWRIGHT_TRY(auto found,
                     searched_below(problem, microbatch, options, here));
      if (found) take_faster(best, std::move(found));
      if (best && best->step().value() <= here) return best;
    }
    PIPEWRIGHT_TRY(auto found,
                   searched_below(problem, microbatch, options, limit));
    if (found) take_faster(best, std::move(found));
    return best;
  }

  // Of the plans that promise less than the limit. Where a device exceeds its
  // memory, the search is repeated with a lower limit for that device.
  Result<std::optional<Found>> searched_below(const Problem& problem,
                                              int microbatch,
                                              BiPartitionOptions options,
                                              double limit) const {
    std::optional<Found> best;
    options.memory_shares.assign(at(problem.cluster->num_devices()), 1.0);
    for (int attempt = 0; attempt < 6; ++attempt) {
      if (attempt > 0 && problem.is_over()) break;
      PIPEWRIGHT_TRY(const BiPartitionCosts costs,
                     BiPartitionCosts::create(problem, microbatch, options));
      const auto [search, promises] = promises_below(
          problem, costs, limit, communication_free_bound(costs));
      bool is_first = true, fits = promises.empty();
      for (const Promise& promise : promises) {
        std::optional<Found> found =
            simulated(*search, promise, costs, problem, microbatch);
        if (!found) continue;
        if (std::exchange(is_first, false)) {
          fits = found->planned.estimate.fits;
          lower_shares(found->planned, problem, options.memory_shares);
        }
        if (found->planned.estimate.fits) take_faster(best, std::move(found));
      }
      if (fits || is_first) break;
    }
    return best;
  }

  // What numbers of stages and devices promise, the best and those near it.
  struct Promises {
    std::unique_ptr<BiPartitionSearch> search;
    std::vector<Promise> promises;
  };
  // Low limits make the search fast, so they are tried first.
  static Promises promises(const Problem& problem,
                           const BiPartitionCosts& costs, double limit) {
    const double bound = communication_free_bound(costs);
    double here = 1.1 * bound;
    for (int attempt = 0; attempt < 12 && here > 0; ++attempt, here *= 1.3) {
      if (here * costs.microbatches() >= limit) break;
      Promises found =
          promises_below(problem, costs, here * costs.microbatches(), bound);
      if (!found.promises.empty()) return found;
    }
    return promises_below(problem, costs, limit, bound);
  }

  static Promises promises_below(const Problem& problem,
                                 const BiPartitionCosts& costs, double limit,
                                 double bound) {
    Promises found;
    found.search = std::make_unique<BiPartitionSearch>(
        costs, limit / costs.microbatches(), bound,
        problem.method == Method::Sync);
    for (int j = 1; j <= max_stages(problem, costs); ++j)
      for (int d = j; d <= costs.num_devices(); ++d) {
        const std::optional<double> seconds = found.search->bottleneck(j, d);
        if (!seconds) continue;
        const double score = step_of(problem, costs, j, *seconds);
        if (score < limit) found.promises.push_back({score, j, d});
      }
    std::stable_sort(
        found.promises.begin(), found.promises.end(),
        [](const Promise& a, const Promise& b) { return a.score < b.score; });
    const int most = costs.num_devices() <= kMaxReplicaDevices
                         ? kMaxSimulated
                         : kMaxSimulatedOnMany;
    while (static_cast<int>(found.promises.size()) > most ||
           (!found.promises.empty() &&
            found.promises.back().score > kNearly * found.promises[0].score))
      found.promises.pop_back();
    return found;
  }

  // The fastest variant that fits; if none does, one that does not.
  std::optional<Found> simulated(const BiPartitionSearch& search,
                                 const Promise& promise,
                                 const BiPartitionCosts& costs,
                                 const Problem& problem, int microbatch) const {
    const auto cuts = search.best(promise.stages, promise.devices);
    if (!cuts) return std::nullopt;
    std::optional<Found> best;
    for (const Pipeline& pipeline :
         variants_of(split_pipeline(*cuts, costs, microbatch), problem)) {
      Result<Planned> result = planned(pipeline, problem, name());
      if (!result) continue;
      const bool is_better = !best || (result->estimate.fits &&
                                       (!best->planned.estimate.fits ||
                                        result->estimate.step < best->step()));
      if (is_better) best = Found{*cuts, promise.score, *std::move(result)};
    }
    return best;
  }

  // Of the devices whose memory the plan exceeds.
  static void lower_shares(const Planned& planned, const Problem& problem,
                           std::vector<double>& shares) {
    for (std::size_t w = 0; w < planned.estimate.memory.size(); ++w) {
      const DeviceId device = planned.plan.devices[w];
      const double ratio =
          problem.memory_of(device) / planned.estimate.memory[w];
      if (ratio < 1) shares[device.index()] *= 0.98 * ratio;
    }
  }

  // Finds by bisection how much memory would be enough.
  static Result<Planned> nothing_fits(const Problem& problem, int microbatch) {
    BiPartitionOptions options;
    options.band = 0;
    const auto fits = [&](double share) -> Result<bool> {
      options.memory_shares.assign(at(problem.cluster->num_devices()), share);
      PIPEWRIGHT_TRY(const BiPartitionCosts costs,
                     BiPartitionCosts::create(problem, microbatch, options));
      return !promises(problem, costs, kNoLimit).promises.empty();
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

  BiPartitionParts parts_;
};

}  // namespace

std::unique_ptr<Planner> bi_partition_planner(BiPartitionParts parts) {
  return std::make_unique<BiPartitionPlanner>(parts);
}

std::unique_ptr<Planner> bi_partition_planner() {
  return bi_partition_planner(BiPartitionParts());
}

}  // namespace pipewright
