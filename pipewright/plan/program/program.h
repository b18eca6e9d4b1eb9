// The lowered schedule: every send, receive, reduction, step and weight version
// explicit. The simulator times it and the runtime executes it; neither knows a
// planner, a schedule or a method by name.
//
// How to read one
//   A program has a list of actions per worker in three sections (see
//   schedule.h): prologue once, body once per repetition, epilogue once.
//   Microbatches and versions in an action count from the section's base, which
//   moves on by num_microbatches and by 1 with each repetition. A version below
//   0 means version 0, the initial weights.
//
//   Compute actions (F B I W R) run on the worker one after the other. Before
//   it starts, an action waits for what its ReadSet names: transfers to have
//   arrived, reductions to be done. A `joined` action and the next one are one
//   piece of work: it starts when both can, and takes the time of both.
//
//   Send hands a transfer to the link and returns; the transfer starts when its
//   Receive has been posted too. Receive posts and returns. Transfers of one
//   pair of workers and one kind start in the order of their sends, which is
//   the order of their receives. So a worker never blocks but at a ReadSet, or
//   at the Reduce of a norm.
//
//   Reduce hands this worker's gradients to a reduction, which runs when all
//   its workers have done so; that of a norm waits for the sums it is about.
//   Step makes the next version of the stage's weights. When an action may
//   start is defined, as code, in execution.h.
//
// A value's life is its memory: an action's LifeSet says which values end with
// it. The worker frees them there; the set's Effect and the bytes of a Transfer
// are sums over the same values.

#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "pipewright/base/ids.h"
#include "pipewright/base/units.h"

namespace pipewright {

enum class ActionKind : std::uint8_t {
  Forward,
  Backward,
  BackwardInput,
  BackwardWeight,
  Recompute,  // compute
  Send,
  Receive,
  Reduce,
  Step,
};
inline bool is_compute(ActionKind kind) {
  return kind <= ActionKind::Recompute;
}

struct Action {
  ActionKind kind = ActionKind::Forward;
  bool joined = false;  // compute only: runs together with the next action
  StageId stage;        // of compute, Reduce and Step; none for transfers
  // Of compute, and of transfers keyed by microbatch; for Reduce and Step the
  // first of the minibatch.
  MicrobatchId microbatch = MicrobatchId(0);
  // Of compute: of the stage's own weights it reads; of Step and of transfers
  // of weights: the one made.
  std::int32_t version = 0;
  // What it is about. Each kind of action has one of these, the others are
  // none.
  ReadSetId read_set = {};     // compute, Step
  TransferId transfer = {};    // Send, Receive
  ReductionId reduction = {};  // Reduce
  LifeSetId life_set = {};     // compute, Send; none: nothing begins or ends

  auto operator<=>(const Action&) const = default;
};

// One tensor, as lowering tells them apart. A layer whose output is a view has
// no activation of its own: the storage's layer stands for it.
enum class ValueKind : std::uint8_t {
  Gradient,    // of the layer's output; a running sum over its users so far
  Activation,  // the layer's output
  Private,     // what the layer's backward keeps beyond inputs and output
  Weights,     // the layer's parameters
};
struct Value {
  ValueKind kind = ValueKind::Activation;
  LayerId layer;

  // For a vector that has one element per value of a model.
  std::size_t index(std::size_t num_layers) const {
    return static_cast<std::size_t>(kind) * num_layers + layer.index();
  }
  auto operator<=>(const Value&) const = default;
};

// In falling priority on a link.
enum class TransferKind : std::uint8_t {
  Gradient,
  Activation,
  Saved,
  Weights
};

// What travels from one worker to another, for one microbatch (or one version,
// if it carries weights). Sample ranges are of the microbatch: replicas that
// split it send slices.
struct Transfer {
  WorkerId from, to;
  StageId
      made_by;  // by its forward, by its backward for gradients, or its step
  TransferKind kind = TransferKind::Activation;
  WeightGroupId group;  // of weights only
  bool again = false;   // what the maker's recomputation made
  std::vector<Value> values;
  std::int32_t first_sample = 0, end_sample = 0;
  Bytes bytes;
  Bytes freed_by_sender;     // when it has arrived
  Bytes retained_by_reader;  // freed with the microbatch, not by the reader

  bool is_keyed_by_version() const { return kind == TransferKind::Weights; }
  bool operator==(const Transfer&) const = default;
};

// Weights that share a forward stage and a backward stage. The backward stage
// owns them: it steps them and sends new versions to the forward stage's
// workers where those are others.
struct WeightGroup {
  StageId forward_stage, owner;
  std::vector<LayerId> layers;
  Bytes bytes;
  bool operator==(const WeightGroup&) const = default;
};

// A version of a group that an action reads: the action's own + offset.
struct WeightRead {
  WeightGroupId group;
  std::int32_t offset = 0;
  auto operator<=>(const WeightRead&) const = default;
};

// Another action of the same worker and microbatch that must come first.
struct LocalRead {
  StageId stage;
  ActionKind kind = ActionKind::Forward;
  auto operator<=>(const LocalRead&) const = default;
};

// What an action waits for and reads. Few distinct ones, many actions. A
// transfer is meant for the action's microbatch, one of weights for the version
// at which the action reads its group; version 0 of weights is there from the
// start and is not waited for.
struct ReadSet {
  std::vector<TransferId> transfers;
  std::vector<WeightRead> weights;
  std::vector<ReductionId> reductions;
  std::vector<LocalRead> local;
  auto operator<=>(const ReadSet&) const = default;
};

// A value that nobody on the worker reads after the action.
struct Free {
  Value value;
  LayerId after;  // of a compute action: the last layer that touches the value;
                  // none: the end of the action
  auto operator<=>(const Free&) const = default;
};

// Bytes allocated when an action starts and freed when it ends.
struct Effect {
  Bytes allocates;
  Bytes frees;
  bool operator==(const Effect&) const = default;
};

// Which values of its microbatch begin and end with an action of a worker. Few
// distinct ones, many actions; those of one set have kind and stage in common.
struct LifeSet {
  std::vector<TransferId> takes;  // transfers that it is the first to read
  std::vector<Free> frees;        // in the order in which it runs its layers
  Effect effect;                  // of compute, in the worker's own memory
  // Of B and W: allocated, beside the effect, by one that makes the sums of
  // weight gradients and finds none to add to. All of them, or less where what
  // it makes takes the place of what adding needs.
  Bytes begins_sums{};
  bool operator==(const LifeSet&) const = default;
};

// Gradients summed over workers before a step: over the replicas of a stage,
// and over the uses of a tied parameter wherever they are. Summed in ascending
// order of layers, then in the order of `workers`.
//
// Or one number of all gradients together, their length, by which steps clip
// them: squares summed in ascending order of parameters.
struct Reduction {
  std::vector<WorkerId> workers;
  std::vector<StageId> stages;  // whose Reduce actions take part
  std::vector<ParameterId> parameters;
  Bytes bytes;
  bool is_norm = false;
  // Of a norm: the reductions of gradients that it is about. Its Reduce waits
  // for those that its worker takes part in.
  std::vector<ReductionId> after = {};
  bool operator==(const Reduction&) const = default;
};

// What one stage does on one worker.
struct Operation {
  StageId stage;
  WorkerId worker;
  std::vector<LayerId> forward, backward;         // ascending
  std::int32_t first_sample = 0, end_sample = 0;  // of each microbatch
  bool recompute = false;
  Bytes gradients;  // accumulators, for the whole run
  Bytes optimizer;  // state, for the whole run
  int num_samples() const { return end_sample - first_sample; }
  bool operator==(const Operation&) const = default;
};

// Copies of a group's weights that a worker must be able to hold at once.
struct HeldWeights {
  WeightGroupId group;
  std::int32_t versions = 1;
  auto operator<=>(const HeldWeights&) const = default;
};

// How far a stage's reads are older than the step that uses them, in steps,
// averaged over the microbatches of the body. Learning-rate rescheduling
// divides by `forward`; where `corrected`, backward reads its version
// extrapolated back by forward - backward steps, and a recomputation by
// forward - recompute.
struct StageDelay {
  double forward = 0;
  double backward = 0;
  double recompute = 0;
  bool corrected = false;
  // Steps over which the weights' velocity is averaged; 0: none is kept.
  double averaging = 0;
  bool operator==(const StageDelay&) const = default;
};

struct WorkerProgram {
  DeviceId device;
  std::vector<Action> prologue, body, epilogue;
  std::vector<HeldWeights> held;
  bool operator==(const WorkerProgram&) const = default;
};

struct Program {
  int num_stages = 0;
  int num_microbatches = 1;     // per minibatch
  int microbatch = 1;           // samples
  int minibatches_outside = 0;  // completed by prologue and epilogue together
  std::vector<WorkerProgram> workers;
  std::vector<Operation> operations;
  std::vector<OperationId> operation_of;  // [worker * num_stages + stage]
  std::vector<Transfer> transfers;
  std::vector<WeightGroup> weight_groups;
  std::vector<ReadSet> read_sets;
  std::vector<LifeSet> life_sets;
  std::vector<Reduction> reductions;
  std::vector<StageDelay> delays;  // one per stage

  int num_workers() const { return static_cast<int>(workers.size()); }
  // None, and null, if the worker has no part of the stage.
  OperationId operation_id(WorkerId worker, StageId stage) const {
    return operation_of[worker.index() * num_stages + stage.index()];
  }
  const Operation* operation(WorkerId worker, StageId stage) const;
  const Transfer& transfer(TransferId id) const {
    return transfers[id.index()];
  }
  const WeightGroup& weight_group(WeightGroupId id) const {
    return weight_groups[id.index()];
  }
  const Reduction& reduction(ReductionId id) const {
    return reductions[id.index()];
  }
  // Of a compute action or a Step.
  const ReadSet& reads(const Action& action) const {
    return read_sets[action.read_set.index()];
  }
  const LifeSet& life(const Action& action) const {
    static const LifeSet kNone;
    return action.life_set.is_none() ? kNone
                                     : life_sets[action.life_set.index()];
  }
  // What tells the messages of a Send's or Receive's transfer apart: the
  // microbatch, or the version if it carries weights.
  std::int32_t key(const Action& action) const {
    return transfer(action.transfer).is_keyed_by_version()
               ? action.version
               : action.microbatch.value;
  }
  // The minibatch that a microbatch belongs to; both count from the same base,
  // and are negative before it.
  std::int32_t minibatch_of(MicrobatchId id) const {
    const std::int32_t quotient = id.value / num_microbatches;
    return id.value % num_microbatches < 0 ? quotient - 1 : quotient;
  }
  MicrobatchId first_microbatch(std::int32_t minibatch) const {
    return MicrobatchId(minibatch * num_microbatches);
  }
  // Repetitions of the body in a run of that many minibatches.
  int repetitions(int minibatches) const {
    return minibatches - minibatches_outside;
  }
  bool operator==(const Program&) const = default;
};

// One worker's actions for a whole run, with absolute microbatches and
// versions.
std::vector<Action> unrolled(const Program& program, WorkerId worker,
                             int minibatches);

std::string to_text(
    const Action& action);  // "1F0 v2", "send 3 m0", "step 1 v1"

}  // namespace pipewright
