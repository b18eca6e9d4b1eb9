// The interface of a planner: it takes a problem (profile, cluster, minibatch,
// method) and returns a plan, which says where to cut the model, which device
// gets which stage, and in which order each worker computes.
//
// Each planner searches with the cost model of its paper. The plan that it
// returns is then scored by one estimator for all of them (the simulator, given
// as a function: planners do not include it). One planner per folder or file,
// listed in planner_registry.cc.

#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/base/units.h"
#include "pipewright/cluster/cluster.h"
#include "pipewright/plan/plan.h"
#include "pipewright/profile/profile.h"

namespace pipewright {

// What a plan will do, as simulated.
struct Estimate {
  Seconds step;               // per minibatch; the period if asynchronous
  double bubble = 0;          // share of worker time not computing
  std::vector<Bytes> memory;  // peak per worker
  Bytes traffic;              // between workers, per minibatch
  double staleness = 0;       // largest delay of a stage's forward, in steps
  bool fits = true;           // every worker within its device's memory
};
// Fails if the plan does not lower to a valid program.
using Estimator = std::function<Result<Estimate>(const Plan&)>;
// Makes an estimator for another profile or cluster. The estimator keeps
// references to both. A memory limit of 0 means no limit.
using EstimatorFor = std::function<Estimator(const Profile&, const Cluster&,
                                             Bytes memory_limit)>;
// Equal groups of devices (copies.h): group g has the devices g * size to
// (g + 1) * size - 1. Those after the last group have nothing to do.
struct EqualGroups {
  int count = 0, size = 0;
  bool operator==(const EqualGroups&) const = default;
};
// Estimates copies of a plan that run side by side, one per group: the plan is
// for the first group. Step, traffic and fit are those of all copies together;
// memory is that of the plan's own workers. Where groups cannot have equally
// many samples, the plan is for as many as the largest has, and the estimate is
// as if all had.
using CopiesEstimator =
    std::function<Result<Estimate>(const Plan& plan, const EqualGroups&)>;

struct Problem {
  const Profile* profile = nullptr;
  const Cluster* cluster = nullptr;
  int minibatch = 1;              // samples per optimizer step
  std::vector<int> microbatches;  // candidate sizes; each divides minibatch
  // The candidate sizes for another cluster; empty: the same.
  std::function<std::vector<int>(const Cluster&)> microbatches_for;
  Method method = Method::Sync;
  int stages = 0;  // required number of stages; 0: any
  // Errors say "no plan", not "no plan of balanced".
  bool any_planner = false;
  int optimizer_words = 1;
  Estimator estimate;               // called from several threads at once
  CopiesEstimator estimate_copies;  // empty: copies are not estimated
  EstimatorFor estimator_for;       // empty: no other problem is estimated
  Bytes memory_limit;               // per device; 0: the device's own memory
  // How replicas are tuned once a planner has its plan (tuned_replicas.h).
  Bytes bucket;                  // of gradients; 0: summed stage by stage
  bool shares_by_speed = false;  // false: equal shares

  // Time limit. Planners that may take long call is_over() now and then, and
  // return the best plan found so far; plan_in_time() stops their estimates.
  // The plan does not depend on the number of threads unless the time limit
  // ends the search.
  Seconds budget;                  // for planners that divide it; 0: none
  std::function<bool()> is_over_;  // empty: never
  // Whether the user ended it, not the clock; empty: never.
  std::function<bool()> is_interrupted_;
  int threads = 0;  // 0: one per core
  bool is_over() const { return is_over_ && is_over_(); }
  bool is_interrupted() const { return is_interrupted_ && is_interrupted_(); }
  // False where the caller computes the lower bound itself.
  bool wants_bound = true;
  // The plan may be one of the same zoo model with layers split over two
  // devices (split_layers.h): Plan::model then says so.
  bool may_split_layers = false;
  bool has_required_stages(const Plan& plan) const {
    return stages == 0 ||
           std::count_if(plan.stages.begin(), plan.stages.end(),
                         [](const Stage& s) { return !s.bucket; }) == stages;
  }

  Bytes memory_of(DeviceId device) const {
    const Bytes own = usable_memory(cluster->kind_of(device));
    return memory_limit > Bytes(0) && memory_limit < own ? memory_limit : own;
  }
  // The same with what the device holds beside a program.
  Bytes memory_with_base_of(DeviceId device) const {
    return memory_with_base(cluster->kind_of(device), memory_of(device));
  }
};

struct Planned {
  Plan plan;
  Estimate estimate;
  Seconds bottleneck;   // slowest stage or link per microbatch, own cost model
  Seconds promised;     // step time by the planner's own cost model
  Seconds lower_bound;  // no plan of this problem can be faster
  std::string why;      // one sentence
  std::vector<std::string> notes;  // what was tried and why it was not chosen
  // Where a table over all layers would take too long: the plan's cuts are
  // between so many groups of layers. 0: between layers.
  int layer_groups = 0;
};

// How much work plan() does. `auto` decides by it which planners it asks about
// one group of a large cluster (auto_planner.cc), and `compare` runs `auto`
// after the others.
enum class PlanningEffort {
  FixedShape,  // one stage per device, or one stage on all devices: `auto`
               // tries these shapes itself, so asking adds nothing
  Linear,      // a few passes over the layers
  Quadratic,   // a table over pairs of layers: slow for hundreds of layers
  Search,      // a search that may take seconds
  AllPlanners  // asks all other planners and improves their plans
};

class Planner {
 public:
  virtual ~Planner() = default;
  virtual std::string name() const = 0;     // "bapipe"
  virtual std::string summary() const = 0;  // in one line
  virtual std::string source() const = 0;   // paper: title, venue, year
  virtual PlanningEffort effort() const = 0;
  // Whether its plans usually need the least memory per device. One planner
  // says so: its error tells best how much is missing, so `auto` reports that
  // one, and asks this planner even if there is no time left.
  virtual bool has_least_memory() const { return false; }
  // Fails with BadConfiguration and what would be needed ("no plan fits 16 GB:
  // stage 1 needs at least 19.2 GB").
  virtual Result<Planned> plan(const Problem& problem) const = 0;
};

// Every planner. `compare` shows ties in this order; `auto` is the last.
const std::vector<std::unique_ptr<Planner>>& planners();
// Fails with BadConfiguration; the hint offers the nearest name.
Result<const Planner*> find_planner(const std::string& name);
// The one with has_least_memory().
const Planner& least_memory_planner();

}  // namespace pipewright
