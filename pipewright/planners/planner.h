// Where to cut, on which device what goes, in which order: one interface, one
// method a file, listed in planner_registry.cc.
//
// A planner is faithful to its own cost model when it searches; what it returns
// is then scored by the same estimator as everyone else's (the simulator,
// handed in as a function: planners do not know it).

#pragma once

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
  double staleness = 0;       // steps that the stalest stage's forward lags
  bool fits = true;           // every worker within its device's memory
};
// Fails if the plan does not lower to a valid program.
using Estimator = std::function<Result<Estimate>(const Plan&)>;
// An estimator for another profile or cluster, to both of which it keeps
// references, within a limit of memory (0: none).
using EstimatorFor = std::function<Estimator(const Profile&, const Cluster&,
                                             Bytes memory_limit)>;
// What copies of a plan would do side by side: the first copy on the devices of
// the plan, the others on groups of devices like it (copies.h). Step, traffic
// and fit are those of all copies together, memory is that of the plan's own
// workers.
using CopiesEstimator =
    std::function<Result<Estimate>(const Plan& plan, int copies)>;

struct Problem {
  const Profile* profile = nullptr;
  const Cluster* cluster = nullptr;
  int minibatch = 1;              // samples per optimizer step
  std::vector<int> microbatches;  // candidate sizes; each divides minibatch
  // What they would be on another cluster; empty: the same.
  std::function<std::vector<int>(const Cluster&)> microbatches_for;
  Method method = Method::Sync;
  int stages = 0;            // asked for; 0: any number
  bool any_planner = false;  // a refusal speaks of plans, not of one planner's
  int optimizer_words = 1;
  Estimator estimate;               // called from several threads at once
  CopiesEstimator estimate_copies;  // empty: copies are estimated one by one
  EstimatorFor estimator_for;       // empty: for this problem only
  Bytes memory_limit;               // per device; 0: the device's own memory

  // How long to search. Planners that may take long ask is_over() now and then
  // and answer with the best so far. What is found in time does not depend on
  // the number of threads.
  Seconds budget;                  // for planners that share it out; 0: none
  std::function<bool()> is_over_;  // empty: never
  int threads = 0;                 // 0: one per core
  bool is_over() const { return is_over_ && is_over_(); }
  bool has_asked_stages(const Plan& plan) const {
    return stages == 0 || static_cast<int>(plan.stages.size()) == stages;
  }

  Bytes memory_of(DeviceId device) const {
    const Bytes own = cluster->kind_of(device).memory;
    return memory_limit > Bytes(0) && memory_limit < own ? memory_limit : own;
  }
};

struct Planned {
  Plan plan;
  Estimate estimate;
  Seconds bottleneck;   // slowest stage or link per microbatch, own cost model
  Seconds promised;     // step time by the planner's own cost model
  Seconds lower_bound;  // no plan of this problem can be faster
  std::string why;      // one sentence
  std::vector<std::string> notes;  // what was tried and why it lost
};

class Planner {
 public:
  virtual ~Planner() = default;
  virtual std::string name() const = 0;     // "bapipe"
  virtual std::string summary() const = 0;  // in one line
  virtual std::string source() const = 0;   // paper: title, venue, year
  // Fails with BadConfiguration and what would be needed ("no plan fits 16 GB:
  // stage 1 needs 19.2 GB at best").
  virtual Result<Planned> plan(const Problem& problem) const = 0;
};

// Every planner, in the order `compare` shows ties.
const std::vector<std::unique_ptr<Planner>>& planners();
// Fails with BadConfiguration, the nearest name offered.
Result<const Planner*> find_planner(const std::string& name);

}  // namespace pipewright
