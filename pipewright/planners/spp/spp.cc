// SPP: puts the devices in a line by recursive min-cuts, assigns stages and
// replicas to it by a dynamic program, orders microbatches in rounds, and gives
// a bound on the step time.
//
// Luo et al., "Efficient Pipeline Planning for Expedited Distributed DNN
// Training", INFOCOM 2022 (RDO, PRM, PE). The details are our reconstruction;
// each file names its departures. Ours here: the line of devices is tried in
// both directions. The estimator times the best few partitions in the paper's
// order, in orders that hold fewer microbatches, and by list scheduling; the
// fastest that fits the memory is the plan. If none fits, the partition is
// searched again with a memory limit.

#include <algorithm>
#include <list>
#include <optional>

#include "pipewright/base/infinity.h"
#include "pipewright/base/text.h"
#include "pipewright/planners/bounds/bounds.h"
#include "pipewright/planners/pipeline.h"
#include "pipewright/planners/planner_parts.h"
#include "pipewright/planners/planner_registry.h"
#include "pipewright/planners/refusal.h"
#include "pipewright/planners/spp/spp_device_order.h"
#include "pipewright/planners/spp/spp_ratio.h"
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

// Along the line of devices; the same line backwards unless that is the same.
std::vector<std::vector<DeviceId>> both_directions(
    const Cluster& cluster, const std::vector<DeviceId>& line) {
  const std::vector<DeviceId> back(line.rbegin(), line.rend());
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (cluster.devices()[line[i].index()].kind !=
        cluster.devices()[back[i].index()].kind)
      return {line, back};
    for (std::size_t j = 0; j < line.size(); ++j) {
      const Link* a = cluster.link(line[i], line[j]);
      const Link* b = cluster.link(back[i], back[j]);
      if ((a == nullptr) != (b == nullptr) ||
          (a != nullptr &&
           (a->bandwidth != b->bandwidth || a->latency != b->latency)))
        return {line, back};
    }
  }
  return {line};
}

std::vector<DeviceId> listed_devices(const Cluster& cluster) {
  std::vector<DeviceId> devices;
  for (int d = 0; d < cluster.num_devices(); ++d)
    devices.push_back(DeviceId(d));
  return devices;
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
  SppRun(const Problem& problem, std::string name, SppParts parts)
      : problem_(problem), name_(std::move(name)), parts_(parts) {}

  Result<Planned> plan() {
    for (const std::vector<DeviceId>& line : lines())
      for (int microbatch : problem_.microbatches) {
        Result<SppCosts> costs = SppCosts::create(problem_, line, microbatch);
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
  std::vector<std::vector<DeviceId>> lines() const {
    const Cluster& cluster = *problem_.cluster;
    if (!parts_.device_order) return {listed_devices(cluster)};
    return both_directions(cluster, recursive_device_order(cluster));
  }

  std::vector<SppCandidate> candidates_of(const SppCosts& costs,
                                          bool within_memory) {
    const Credits credits = within_memory || !parts_.microbatch_order
                                ? Credits::Neighbour
                                : Credits::Rounds;
    SppCandidates found =
        spp_candidates(costs,
                       !parts_.partition ? costs.compute_only()
                       : within_memory   ? costs.partition_within_memory()
                                         : costs.partition(),
                       credits, max_timed_);
    if (!within_memory) {
      least_load_ = std::min(least_load_, found.least_load);
      is_exact_ = is_exact_ && costs.is_exact();
    }
    return std::move(found.best);
  }

  std::vector<SppCandidate> candidates(bool within_memory) {
    std::vector<SppCandidate> all;
    for (const SppCosts& costs : costs_) {
      if (!all.empty() && problem_.is_over()) {
        is_exact_ = false;
        break;
      }
      auto some = candidates_of(costs, within_memory);
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
      if (kind != Credits::Neighbour && !parts_.microbatch_order) continue;
      auto held = credits(kind, static_cast<int>(candidate.stages.size()),
                          candidate.costs->num_microbatches());
      if (std::find(tried.begin(), tried.end(), held) != tried.end()) continue;
      tried.push_back(std::move(held));
      if (exceeds_memory(candidate, tried.back())) continue;
      if (time(candidate, kind, mapped_pipeline(candidate, kind)))
        guarantee(candidate, kind);
    }
    if (candidate.stages.size() < 2 || !parts_.microbatch_order) return;
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

  // The plan is at least as fast as every order that was timed and fits, so
  // the smallest of their bounds is a bound for it.
  void guarantee(SppCandidate candidate, Credits kind) {
    candidate.credits = kind;
    if (!guaranteed_ || candidate.bound() < guaranteed_->bound())
      guaranteed_ = std::move(candidate);
  }

  // Whether it fits.
  bool time(const SppCandidate& candidate, Credits kind,
            const Pipeline& pipeline) {
    Result<Planned> timed = planned(pipeline, problem_, name_);
    if (!timed) {
      error_ = timed.error();
      return false;
    }
    const Bytes peak = largest_memory(timed->estimate);
    if (!timed->estimate.fits) {
      if (!nearest_ || peak < nearest_peak_) set_nearest(pipeline, peak);
      return false;
    }
    if (best_ && timed->estimate.step.value() >=
                     best_->estimate.step.value() * (1 - 1e-9))
      return true;
    best_ = *std::move(timed);
    best_->bottleneck = largest_load(candidate.loads);
    best_->promised = order_seconds(candidate.loads,
                                    candidate.costs->num_microbatches(), kind);
    chosen_ = candidate;
    return true;
  }

  void explain() {
    best_->lower_bound = lower_bound(problem_);
    best_->why = counted(std::ssize(chosen_->stages), "stage") + " of " +
                 shape_of(*chosen_) +
                 " devices balance compute, channels and all-reduce on the "
                 "line of devices given by recursive cuts";
    best_->notes = std::move(notes_);
    if (!parts_.all()) return;
    if (guaranteed_) best_->notes.push_back(guarantee_text());
    best_->notes.push_back(ratio_text());
  }

  std::string guarantee_text() const {
    const Seconds bound = guaranteed_->bound();
    const Seconds load = largest_load(guaranteed_->loads);
    const Seconds tail = largest_tail(guaranteed_->loads);
    return "guarantee: at most " + to_text(bound) + " = " +
           to_text((bound - tail) / load) + " rounds of " + to_text(load) +
           " + " + to_text(tail) + " of all-reduce and update; simulated " +
           to_text(best_->estimate.step) +
           (best_->estimate.step <= bound * (1 + 1e-9)  // rounding
                ? ""
                : " (the bound does not count links that several channels "
                  "share, nor values that skip stages)");
  }

  std::string ratio_text() const {
    const double spread = link_spread(*problem_.cluster);
    if (!is_exact_ || spread == kInfinity)
      return "ratio: no bound, because " +
             std::string(is_exact_ ? "devices differ or a link is missing"
                                   : "not every cut was tried");
    const Seconds load = least_load_ / spread;
    const Seconds least = std::max(load, best_->lower_bound);
    return "ratio: at most " + to_text(best_->estimate.step / least) +
           " times the best plan, which takes at least " + to_text(least) +
           ": any plan " + to_text(best_->lower_bound) + "; by SPP's costs " +
           to_text(load) + ", the smallest load of " + to_text(least_load_) +
           " over links that differ by up to " + to_text(spread) + "x";
  }

  static Seconds largest_tail(const std::vector<StageLoad>& loads) {
    Seconds tail;
    for (const StageLoad& load : loads) tail = std::max(tail, load.tail);
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
  const SppParts parts_;
  const std::size_t max_timed_ = max_timed_partitions(problem_);
  std::list<SppCosts> costs_;  // candidates point to them
  std::vector<std::string> notes_;
  std::optional<Planned> best_;
  std::optional<SppCandidate> chosen_, guaranteed_;
  Seconds least_load_ = Seconds::max();  // W, of all sizes
  bool is_exact_ = true;                 // every cut was tried
  std::optional<Pipeline> nearest_;      // to fitting
  Bytes nearest_peak_;
  std::optional<Error> error_;
};

class SppPlanner : public Planner {
 public:
  explicit SppPlanner(SppParts parts) : parts_(parts) {}
  std::string name() const override { return "spp"; }
  std::string summary() const override {
    return "stages with replicas over any links, with a bound on the step";
  }
  std::string source() const override {
    return "Efficient Pipeline Planning for Expedited Distributed DNN "
           "Training, INFOCOM 2022";
  }
  PlanningEffort effort() const override { return PlanningEffort::Linear; }
  Result<Planned> plan(const Problem& problem) const override {
    if (is_asynchronous(problem.method))
      return bad_configuration("spp plans synchronous training only",
                               "use --method sync");
    return SppRun(problem, name(), parts_).plan();
  }

 private:
  SppParts parts_;
};

}  // namespace

std::unique_ptr<Planner> spp_planner(SppParts parts) {
  return std::make_unique<SppPlanner>(parts);
}

std::unique_ptr<Planner> spp_planner() { return spp_planner(SppParts()); }

}  // namespace pipewright
