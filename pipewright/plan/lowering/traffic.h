// What must travel between workers: the lowering rule, for one microbatch.
//
// Given where each stage of a microbatch runs, every value that is made on one
// worker and used on another becomes part of a transfer, each storage once per
// destination; replicas that split the microbatch exchange the slices both have
// a part in. Knows no schedule and no method.
//
// The gradient of an activation with users in several stages is one running
// sum: it visits them from the last to the first and then goes to the
// activation's own backward stage, so that it is added up in one order wherever
// the cuts are.

#pragma once

#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "pipewright/base/ids.h"
#include "pipewright/plan/lowering/homes.h"
#include "pipewright/plan/plan.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/plan/sample_range.h"
#include "pipewright/profile/profile.h"

namespace pipewright {

// The workers of each stage for one microbatch: one, or all that split it.
using Placement = std::vector<std::vector<WorkerId>>;

// What one stage on one worker waits for and sends, for one microbatch.
struct StageTraffic {
  std::vector<TransferId> forward_needs;   // activations
  std::vector<TransferId> kept_needs;      // saved tensors, for B, I or R
  std::vector<TransferId> backward_needs;  // gradients
  std::vector<TransferId> forward_sends;
  std::vector<TransferId> backward_sends;
  std::vector<TransferId> again_sends;  // by R
  // Other stages on the same worker that make what this one uses: forwards for
  // its forward, forwards for what its backward keeps, backwards for gradients.
  std::set<StageId> forward_local, kept_local, backward_local;
};

// Which actions of its own worker an action comes after. Backward stands for
// the half of it that passes gradients on, B or I.
void add_local_reads(const StageTraffic& traffic, const ComputeAction& action,
                     bool recompute, std::vector<LocalRead>& reads);

// By (stage, worker).
using Lane = std::map<std::pair<StageId, WorkerId>, StageTraffic>;

class Traffic {
 public:
  Traffic(const Plan& plan, const Profile& profile, const Homes& homes,
          const std::vector<LayerSizes>& sizes);

  // The lane of a placement; equal placements share one.
  const Lane& lane(const Placement& placement);

  // All transfers of the lanes asked for so far, without weights.
  const std::vector<Transfer>& transfers() const { return transfers_; }

  Bytes bytes_of(const Value& value, SampleRange samples) const;
  Bytes workspace_of(LayerId layer, SampleRange samples) const;
  Bytes carried_by(LayerId layer, SampleRange samples) const;

 private:
  struct Building;
  Bytes share_of(Bytes microbatch, SampleRange samples) const;
  void add_activations(Building& b);
  void add_kept(Building& b);
  void add_remade(Building& b);
  void add_gradients(Building& b);
  void move(Building& b, TransferKind kind, Value value, StageId from,
            StageId to);
  SampleRange samples_at(const Building& b, StageId stage, int replica) const;
  TransferId transfer_of(TransferKind kind, StageId from_stage, WorkerId from,
                         StageId to_stage, WorkerId to, SampleRange samples);

  const Plan& plan_;
  const Profile& profile_;
  const Homes& homes_;
  const std::vector<LayerSizes>& sizes_;
  std::map<Placement, Lane> lanes_;
  std::vector<Transfer> transfers_;
  std::map<std::tuple<TransferKind, StageId, WorkerId, StageId, WorkerId,
                      SampleRange>,
           TransferId>
      known_;
};

}  // namespace pipewright
