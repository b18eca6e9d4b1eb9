// SPP: puts the devices in a line by recursive min-cuts, assigns stages and
// replicas to it by a dynamic program, orders microbatches in rounds, and gives
// a bound on the step time.
//
// Luo et al., "Efficient Pipeline Planning for Expedited Distributed DNN
// Training", INFOCOM 2022 (RDO, PRM, PE). The details are our reconstruction;
// each file names its departures. Ours here: the estimator times the best few
// partitions in the paper's order, in orders that hold fewer microbatches, and
// by list scheduling; the fastest that fits the memory is the plan. If none
// fits, the partition is searched again with a memory limit.

#include <algorithm>
#include <list>
#include <optional>

#include "pipewright/base/text.h"
#include "pipewright/planners/bounds/bounds.h"
#include "pipewright/planners/pipeline.h"
#include "pipewright/planners/planner_registry.h"
#include "pipewright/planners/refusal.h"
#include "pipewright/planners/spp/spp_device_order.h"
#include "pipewright/planners/spp/spp_search.h"

namespace pipewright {
namespace {

// For very many devices, simulating a plan takes longer than finding it.
std::size_t max_timed_partitions(const Problem& problem) {
  return problem.cluster->num_devices() <= kMaxUnits ? 4 : 1;
}

Pipeline mapped_pipeline(const SppCandidate& candidate, Credits credits) {
  Pipeline pipeline;
  pipeline.microbatch = candidate.costs->microbatch();
  pipeline.schedule = schedule_of(credits);
  for (const PartitionStage& stage : candidate.stages) {
    const auto devices = candidate.costs->devices(stage);
    pipeline.stages.push_back({candidate.costs->end_layer(stage),
                               -1,
                               {devices.begin(), devices.end()},
                               false});
  }
  return pipeline;
}

void set_times(Pipeline& pipeline, const SppCandidate& candidate) {
  for (const StageLoad& load : candidate.loads) {
    pipeline.times.push_back({load.forward, load.backward, Seconds(0)});
    pipeline.transfer = std::max(pipeline.transfer, load.channel);
  }
}

std::string shape_of(const SppCandidate& candidate) {
  std::string shape;
  for (const PartitionStage& stage : candidate.stages)
    shape += (shape.empty() ? "" : "-") +
             std::to_string(candidate.costs->devices(stage).size());
  return shape;
}

Bytes largest_memory(const Estimate& estimate) {
  Bytes largest;
  for (Bytes bytes : estimate.memory) largest = std::max(largest, bytes);
  return largest;
}

// One call of the planner: tries partitions and keeps the best plan, or what to
// report if there is none.
class SppRun {
 public:
  SppRun(const Problem& problem, std::string name)
      : problem_(problem),
        name_(std::move(name)),
        order_(recursive_device_order(*problem.cluster)) {}

  Result<Planned> plan() {
    for (int microbatch : problem_.microbatches) {
      Result<SppCosts> costs = SppCosts::create(problem_, order_, microbatch);
      if (!costs) return costs.error();
      costs_.push_back(*std::move(costs));
    }
    time_best(candidates(false), false);
    if (!best_) time_best(candidates(true), true);
    if (!best_) return error();
    explain();
    return *std::move(best_);
  }

 private:
  std::vector<SppCandidate> candidates(bool within_memory) {
    std::vector<SppCandidate> all;
    for (const SppCosts& costs : costs_) {
      if (!all.empty() && problem_.is_over()) break;
      auto some = within_memory
                      ? spp_candidates(costs, costs.partition_within_memory(),
                                       Credits::Neighbour, max_timed_)
                      : spp_candidates(costs, costs.partition(),
                                       Credits::Rounds, max_timed_);
      if (!some.empty())
        notes_.push_back("microbatch " + std::to_string(costs.microbatch()) +
                         (within_memory ? " within the memory: " : ": ") +
                         std::to_string(some.front().stages.size()) +
                         " stages of " + shape_of(some.front()) +
                         " devices promise " + to_text(some.front().promised));
      for (SppCandidate& candidate : some) all.push_back(std::move(candidate));
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const SppCandidate& a, const SppCandidate& b) {
                       return a.promised < b.promised;
                     });
    return all;
  }

  // Times the first candidates; with `until_one_fits` also later ones until one
  // fits.
  void time_best(const std::vector<SppCandidate>& all, bool until_one_fits) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i >= max_timed_ && (best_ || !until_one_fits)) return;
      if (best_ && problem_.is_over()) return;
      time_orders(all[i]);
    }
  }

  // Orders that hold few microbatches come first, so that one that holds more
  // is chosen only if it is faster.
  void time_orders(const SppCandidate& candidate) {
    std::vector<std::vector<int>> tried;
    for (Credits kind :
         {Credits::Neighbour, Credits::Channels, Credits::Rounds}) {
      auto held = credits(kind, static_cast<int>(candidate.stages.size()),
                          candidate.costs->num_microbatches());
      if (std::find(tried.begin(), tried.end(), held) != tried.end()) continue;
      tried.push_back(std::move(held));
      if (exceeds_memory(candidate, tried.back())) continue;
      time(candidate, kind, mapped_pipeline(candidate, kind));
    }
    if (candidate.stages.size() < 2) return;
    Pipeline listed = mapped_pipeline(candidate, Credits::Rounds);
    set_times(listed, candidate);
    time(candidate, Credits::Rounds, listed);
  }

  // Whether weights and activations alone exceed a device's memory. The
  // smallest such need is kept for the error message.
  bool exceeds_memory(const SppCandidate& candidate,
                      const std::vector<int>& held) {
    std::size_t worst = 0;
    const auto need = [&](std::size_t s) {
      return candidate.costs->memory(candidate.stages[s], held[s]);
    };
    const auto limit = [&](std::size_t s) {
      return candidate.costs->memory_limit(candidate.stages[s]);
    };
    for (std::size_t s = 1; s < held.size(); ++s)
      if (need(s) - limit(s) > need(worst) - limit(worst)) worst = s;
    if (need(worst) <= limit(worst)) return false;
    if (!nearest_ || need(worst) < nearest_peak_)
      set_nearest(mapped_pipeline(candidate, Credits::Neighbour), need(worst));
    return true;
  }

  void set_nearest(const Pipeline& pipeline, Bytes peak) {
    nearest_ = pipeline;
    nearest_peak_ = peak;
  }

  void time(const SppCandidate& candidate, Credits kind,
            const Pipeline& pipeline) {
    Result<Planned> timed = planned(pipeline, problem_, name_);
    if (!timed) {
      error_ = timed.error();
      return;
    }
    const Bytes peak = largest_memory(timed->estimate);
    if (!timed->estimate.fits) {
      if (!nearest_ || peak < nearest_peak_) set_nearest(pipeline, peak);
      return;
    }
    if (best_ && timed->estimate.step.value() >=
                     best_->estimate.step.value() * (1 - 1e-9))
      return;
    best_ = *std::move(timed);
    best_->bottleneck = largest_load(candidate.loads);
    best_->promised = order_seconds(candidate.loads,
                                    candidate.costs->num_microbatches(), kind);
    chosen_ = candidate;
    chosen_->credits = kind;
  }

  void explain() {
    best_->lower_bound = lower_bound(problem_);
    const int stages = static_cast<int>(chosen_->stages.size());
    best_->why = std::to_string(stages) + (stages == 1 ? " stage" : " stages") +
                 " of " + shape_of(*chosen_) +
                 " devices balance compute, channels and all-reduce on the "
                 "line of devices given by recursive cuts";
    const Seconds bound = chosen_->bound();
    best_->notes = std::move(notes_);
    best_->notes.push_back(
        "guarantee: at most " + to_text(bound) + " = " +
        to_text((bound - largest_tail()) / largest_load(chosen_->loads)) +
        " rounds of " + to_text(largest_load(chosen_->loads)) + " + " +
        to_text(largest_tail()) + " of all-reduce and update; simulated " +
        to_text(best_->estimate.step) +
        (best_->estimate.step <= bound
             ? ""
             : " (the bound does not count links that several channels share, "
               "nor values that skip stages)"));
  }

  Seconds largest_tail() const {
    Seconds tail;
    for (const StageLoad& load : chosen_->loads)
      tail = std::max(tail, load.tail);
    return tail;
  }

  Error error() const {
    if (error_ && !nearest_) return *error_;
    if (!nearest_)
      return bad_configuration(
          problem_.microbatches.empty()
              ? "no microbatch size is given"
              : "no line of devices has links between all neighbours");
    const Result<Planned> again = planned(*nearest_, problem_, name_);
    return again ? nothing_fits(problem_, *again) : again.error();
  }

  const Problem& problem_;
  const std::string name_;
  const std::vector<DeviceId> order_;
  const std::size_t max_timed_ = max_timed_partitions(problem_);
  std::list<SppCosts> costs_;  // candidates point to them
  std::vector<std::string> notes_;
  std::optional<Planned> best_;
  std::optional<SppCandidate> chosen_;
  std::optional<Pipeline> nearest_;  // to fitting
  Bytes nearest_peak_;
  std::optional<Error> error_;
};

class SppPlanner : public Planner {
 public:
  std::string name() const override { return "spp"; }
  std::string summary() const override {
    return "stages with replicas over any links, with a bound on the step";
  }
  std::string source() const override {
    return "Efficient Pipeline Planning for Expedited Distributed DNN "
           "Training, INFOCOM 2022";
  }
  PlanningEffort effort() const override { return PlanningEffort::Search; }
  Result<Planned> plan(const Problem& problem) const override {
    if (is_asynchronous(problem.method))
      return bad_configuration("spp plans synchronous training only",
                               "use --method sync");
    return SppRun(problem, name()).plan();
  }
};

}  // namespace

std::unique_ptr<Planner> spp_planner() {
  return std::make_unique<SppPlanner>();
}

}  // namespace pipewright
