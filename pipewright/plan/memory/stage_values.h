// Which values a stage makes, receives, keeps and gives on, on one worker: what
// memory effects are counted from. Knows no bytes but those of gradients.

#pragma once

#include <map>
#include <utility>
#include <vector>

#include "pipewright/plan/lowering/homes.h"
#include "pipewright/plan/lowering/traffic.h"
#include "pipewright/plan/memory/value_set.h"
#include "pipewright/plan/plan.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/profile/profile.h"

namespace pipewright {

// Of one stage on one worker, for one microbatch.
struct StageValues {
  const Lane* lane = nullptr;
  ValueSet made;            // by F
  ValueSet received;        // for F
  ValueSet sent;            // by F
  ValueSet taken_over;      // made by another stage of the worker for F alone
  ValueSet kept;            // from F (and receives) until B or W
  ValueSet kept_for_again;  // from there until R alone
  ValueSet saved;           // comes by Saved transfers for R, B or I
  ValueSet recomputed;      // there from R until B or W
  ValueSet sent_again;      // by R
  std::vector<LayerId> gradients_there;  // when backward starts
  // By backward, for other stages; less what those of the worker left.
  Bytes gradients_made;
};

// All of one worker's stages that a microbatch meets.
struct WorkerValues {
  ValueSet made, sent, kept;
  ValueSet handed_on;        // to a later forward of the worker, and not kept
  ValueSet read_by_weights;  // by a W
};

class StageValuesTable {
 public:
  struct Settings {
    bool has_halves = false;     // the schedule has W
    bool shares_memory = false;  // a worker has no copy of what its maker keeps
  };

  // The program has its operations and transfers. `lanes` has one entry per
  // microbatch; the first that runs a stage on a worker stands for all.
  StageValuesTable(const Program& program, const Plan& plan,
                   const Profile& profile, const Homes& homes,
                   const Traffic& traffic,
                   const std::vector<const Lane*>& lanes, Settings settings);

  const StageValues& of(const Operation& operation) const {
    return stages_.at({operation.worker, operation.stage});
  }
  const WorkerValues& of(const Lane* lane, WorkerId worker) const {
    return workers_.at({lane, worker});
  }
  bool is_alone(const Operation& operation) const;  // no other of its worker
  // The first stage that uses each transfer, and a lane that has it.
  const std::map<TransferId, StageId>& readers() const { return reader_; }
  const std::map<TransferId, const Lane*>& lane_of() const { return lane_of_; }

 private:
  void add(const Lane* lane, const Operation& operation,
           const StageTraffic& traffic);
  void set_kept(const Operation& operation, StageValues& values) const;
  void share_kept();
  void keep_for_again();
  void keep_what_several_read();
  void leave_to_makers();
  void collect_workers();
  void hand_on_activations(const Operation& operation, StageValues& values);
  void hand_on_gradients(const Operation& operation, StageValues& values);
  StageValues* neighbour(const Operation& operation, StageId stage);
  void note_weight_reads(const Operation& operation, ValueSet& reads) const;

  const Program& program_;
  const Plan& plan_;
  const Profile& profile_;
  const Homes& homes_;
  const Traffic& traffic_;
  std::map<std::pair<WorkerId, StageId>, StageValues> stages_;
  std::map<std::pair<const Lane*, WorkerId>, WorkerValues> workers_;
  const Settings settings_;
  std::vector<int> num_stages_;     // by worker
  std::vector<const Lane*> lanes_;  // distinct ones
  std::map<TransferId, StageId> reader_;
  std::map<TransferId, const Lane*> lane_of_;
};

}  // namespace pipewright
