// A plan is data: which layers form a stage, which devices hold it, in which
// order every worker computes, and how weights move. A planner writes it, a
// person can read and edit it, and lower() makes the one Program from it that
// is simulated and run.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pipewright/base/ids.h"
#include "pipewright/base/json.h"
#include "pipewright/base/result.h"
#include "pipewright/base/units.h"
#include "pipewright/cluster/cluster.h"
#include "pipewright/plan/method.h"
#include "pipewright/plan/schedule/schedule.h"
#include "pipewright/profile/profile.h"

namespace pipewright {

struct Stage {
  std::vector<LayerId> forward;   // ascending
  std::vector<LayerId> backward;  // ascending; the same unless Bi-Partition
  std::vector<WorkerId> workers;  // who holds it: more than one is replicas
  bool recompute = false;         // forward keeps only its inputs
  // Of a stage that recomputes: it goes on with the segment of the stage before
  // it. What stages of the segment feed it is not kept either: they recompute
  // it and send it once more.
  bool continues = false;
  // Of replicas that split microbatches: how many samples of each microbatch
  // each worker has. Empty: as equal as possible.
  std::vector<int> samples = {};
  // It goes on with the stage before it, on the same workers: only its
  // gradients are summed apart (gradient_buckets.h).
  bool bucket = false;

  bool operator==(const Stage&) const = default;
};

struct Plan {
  std::string model;    // MODEL as on the command line
  std::string planner;  // who made it
  Method method = Method::Sync;
  int minibatch = 1;   // samples per optimizer step
  int microbatch = 1;  // samples; minibatch / microbatch is a whole number
  Replication replication = Replication::Split;
  std::vector<DeviceId> devices;  // of each worker
  // The kind of each worker's device; empty: the plan names none.
  std::vector<std::string> device_kinds;
  std::vector<Stage> stages;  // in pipeline order
  std::string schedule_name;  // "1f1b"; "" when written by hand
  Schedule schedule;          // over the workers above
  // State per weight, in words of the weights' size: optimizer_choice.h.
  int optimizer_words = 1;
  std::string number_type;  // of weights and activations; "": not known

  int num_microbatches() const { return minibatch / microbatch; }
  int num_stages() const { return static_cast<int>(stages.size()); }
  int num_workers() const { return static_cast<int>(devices.size()); }
};

// A plan whose backward stages equal its forward ones: cuts[i] is the number of
// layers before stage i+1, stage i on worker i, worker i on device i.
std::vector<Stage> stages_of_cuts(const std::vector<int>& cuts, int num_layers);

// Whether any stage of the plan recomputes.
bool has_recompute(const Plan& plan);
// Whether any stage's backward has other layers than its forward.
bool has_separate_cuts(const Plan& plan);

// Writes down of which kind the plan's devices are in this cluster, which has
// all of them.
void name_device_kinds(Plan& plan, const Cluster& cluster);

// Fails with MalformedInput, naming the stage and the layer, unless every layer
// has one forward and one backward stage, layers feed only stages at or after
// their own, workers exist and the schedule is for these stages and workers.
Result<void> check_plan(const Plan& plan, const Profile& profile);
// What of that needs no model.
Result<void> check_plan(const Plan& plan);

// File "pipewright/plan", version 2; version 1 has neither samples nor buckets
// of a stage, and a plan without them is written as version 1.
Result<Plan> parse_plan(std::string_view text, const std::string& file);
Json to_json(const Plan& plan);

}  // namespace pipewright
