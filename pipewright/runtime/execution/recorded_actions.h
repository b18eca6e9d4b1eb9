// A worker's compute actions as its device has recorded them: after some steps
// each action is given to the device as a whole instead of kernel by kernel.
//
// A recording reads and writes the memory of the step that it was made in. So
// all compute actions of one step are recorded, and every later step replays
// them in the same order: what was in use at the same time then is in
// different places now. What comes from outside, messages and samples, is
// copied to where that step had it; but small messages of workers that all
// record stay where their sender has them. What an action leaves, values, sums
// of gradients and a loss, is known from that step.
//
// Before it counts, every action is rehearsed: if the device cannot record it,
// nothing has been lost, and all goes on kernel by kernel. So it does if the
// recording itself fails, where memory has run out for one: what the step has
// recorded before then stays until the step has ended, since values of the step
// are in its memory.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/devices/worker_device.h"
#include "pipewright/runtime/execution/gradient_sums.h"
#include "pipewright/runtime/execution/network.h"
#include "pipewright/runtime/execution/value_store.h"
#include "pipewright/runtime/execution/worker_code.h"
#include "pipewright/runtime/training/training.h"

namespace pipewright {

// What a worker's compute action reads and changes beside weights.
struct ActionState {
  ValueStore& values;
  GradientSums& gradients;
  Tensors& samples;  // of the model's inputs that it reads
  at::Tensor& loss;  // that it makes; undefined: none
};

// An action in progress.
struct RunningAction {
  std::size_t place = 0;  // in the body of the worker's program
  const Action& action;
  const ActionCode& code;
  std::function<void()> compute;  // kernel by kernel
  std::vector<Seconds*> times;    // of its stamps; none without
};

class RecordedActions {
 public:
  enum class Phase {
    Off,
    WarmUp,
    Rehearsal,
    Recording,
    Replay
  };

  // The arguments outlive this object.
  RecordedActions(const Network& network, const Program& program,
                  WorkerId worker, const TrainingSettings& settings,
                  WorkerDevice& device);

  // Why actions are given kernel by kernel for good; empty otherwise.
  const std::string& why_not() const { return why_not_; }
  void give_up(const std::string& why);
  // Forgets what is recorded and begins again, unless it is off.
  void start_over();
  Phase phase() const { return phase_; }
  bool is_off() const { return phase_ == Phase::Off; }
  // Whether the next steps will be given as the last one was.
  bool is_settled() const {
    return phase_ == Phase::Off || phase_ == Phase::Replay;
  }
  // Whether values of this step are in memory of recordings: others get copies
  // of them.
  bool is_in_use() const {
    return phase_ == Phase::Recording || phase_ == Phase::Replay;
  }

  bool is_recording() const { return phase_ == Phase::Recording; }
  // Whether actions are replayed, which copy their samples from any memory.
  bool is_replayed() const { return phase_ == Phase::Replay; }

  // A run begins. `addresses` are those of weights and statistics; if they have
  // changed, recordings are worthless.
  void begin_run(std::vector<const void*> addresses);
  // A repetition of the body begins.
  void begin_step();
  void run(const RunningAction& running, const ActionState& state);
  // Messages of the transfer, like this one, are read where their sender has
  // them.
  void read_in_place(TransferId transfer, const Values& message);
  // What the send at that place of the body sends, where the recording before
  // it has made it; empty: it is not kept there.
  const Values& message(std::size_t place) const {
    return recorded_[place].message;
  }
  // Where the action at that place of the body reads a message, if nothing else
  // is given to the device before it; empty if that is not known.
  void add_rooms(std::size_t place, const ActionCode& code, TransferId transfer,
                 Values& rooms) const;

  // For a step that is given to the device as a whole, with those of other
  // workers. Whether nothing but samples comes from outside in between, and
  // they have memory of their own.
  bool is_self_contained() const;
  const Recording& recording(std::size_t place) const {
    return *recorded_[place].recording;
  }
  // The action at that place reads these samples, from fill_samples() on.
  void put_samples(std::size_t place, const Tensors& samples);
  void fill_samples();
  // Sets the sums of gradients that the action at that place leaves.
  void leave(std::size_t place, const ActionCode& code, std::int32_t minibatch,
             GradientSums& gradients) const;
  bool has_loss(std::size_t place) const {
    return recorded_[place].loss.defined();
  }
  // All losses of the step, each a list of one.
  const std::vector<at::Tensor>& losses() const { return losses_; }

 private:
  // What an action did to a value.
  struct Change {
    Value value;
    bool is_dropped = false;
    Tensors tensors;
  };
  struct Recorded {
    std::unique_ptr<Recording> recording;
    std::vector<at::Tensor> from_outside;  // where it reads messages, samples
    std::vector<Change> rooms;             // the same of messages, by value
    Tensors host_samples;  // where samples for a whole step are put first
    std::vector<Change> changes;
    Values message;             // of a send
    std::vector<Tensors> sums;  // by layer of the code; empty: none
    at::Tensor loss;
  };

  // What an action may change, from before it.
  struct Before {
    std::vector<Change> values;
    std::vector<Tensors> sums;  // by layer of the code
    Tensors samples;
  };

  void forget();
  void forget_if_failed();
  Before before(const RunningAction& running, const ActionState& state,
                bool is_owner) const;
  void put_back(const Before& before, const RunningAction& running,
                const ActionState& state) const;
  void rehearse(const RunningAction& running, const ActionState& state);
  void record(const RunningAction& running, const ActionState& state);
  void replay(const Recorded& recorded, const RunningAction& running,
              const ActionState& state) const;
  void keep_messages(const RunningAction& running, const ValueStore& values);
  bool is_foreign(const at::Tensor& tensor) const;
  std::vector<Value> taken(const ActionCode& code) const;
  std::vector<Value> touched(const ActionCode& code) const;
  std::vector<Value> arrived(const ActionCode& code) const;
  // Copies to be filled take the place of what came from outside.
  std::vector<Change> make_room(const RunningAction& running,
                                const ActionState& state,
                                std::vector<at::Tensor>& from_outside) const;
  void place_samples(const RunningAction& running, const ActionState& state);
  std::vector<at::Tensor> outside(const RunningAction& running,
                                  const ActionState& state) const;
  void give(const Recorded& recorded, const std::vector<at::Tensor>& from,
            std::span<Seconds* const> times) const;

  const Network& network_;
  const Program& program_;
  const WorkerProgram& own_;
  WorkerDevice& device_;
  std::string why_not_;
  Phase phase_ = Phase::WarmUp;
  bool has_failed_ = false;  // it is off, and still has recordings
  int num_steps_ = 0;        // of the warm-up
  std::map<const ActionCode*, int> num_rehearsed_;
  std::vector<Recorded> recorded_;  // by place
  std::size_t num_compute_ = 0, num_recorded_ = 0;
  std::vector<bool> is_in_place_;  // by transfer
  std::set<const void*> foreign_;  // storages that a message is not sent from
  // Samples of a step, if they are few, have memory of their own, here and on
  // the host.
  std::size_t sample_bytes_ = 0, sample_end_ = 0;
  at::Tensor sample_memory_, host_memory_;
  std::vector<at::Tensor> losses_;
  std::vector<const void*> addresses_;
};

}  // namespace pipewright
