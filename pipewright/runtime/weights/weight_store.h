// The weights that a worker holds: of each group a ring of as many versions as
// the program says, the optimizer's state where this worker steps the group,
// and PipeMare's velocity estimate where a stage's backward reads corrected
// weights.
//
// The program says which version an action reads; no method is known here.

#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/devices/worker_device.h"
#include "pipewright/runtime/execution/gradients.h"
#include "pipewright/runtime/execution/network.h"
#include "pipewright/runtime/training/training.h"
#include "pipewright/runtime/weights/step_rule.h"

namespace pipewright {

class WeightStore {
 public:
  // The arguments must outlive the store.
  WeightStore(const Network& network, const Program& program, WorkerId worker,
              const TrainingSettings& settings, WorkerDevice& device);

  // Starts a run: these, in memory of the host, are version 0. The optimizer's
  // state is kept.
  void restart(const Tensors& parameters);

  // The layer's parameters in a version of its group; below 0 means 0. Throws
  // Bug if that version is not held.
  const Tensors& read(LayerId layer, std::int32_t version) const;
  // The same, extrapolated `steps` back along the weights' velocity, but not
  // before the start of the run. What that makes is in `moved`, for the caller
  // to let go of: nothing here keeps it.
  const Tensors& read_back(LayerId layer, std::int32_t version, double steps,
                           Tensors& moved) const;

  bool has(WeightGroupId group, std::int32_t version) const;
  // Stores a version that its owner has sent: one list per layer of the group.
  void install(WeightGroupId group, std::int32_t version, const Values& layers);
  // Makes copies to send: steps write into the ring meanwhile.
  void copy(WeightGroupId group, std::int32_t version, Values& layers) const;

  // Makes `version` of all groups that `stage` owns. `step` counts from the
  // start of training.
  void step(StageId stage, std::int32_t version, std::int64_t step,
            const Gradients& gradients);

  // Where weights are, in an order of its own.
  std::vector<const void*> addresses() const;

  // The newest version of what this worker owns.
  std::map<ParameterId, at::Tensor> newest() const;

  // Which version that is.
  std::map<ParameterId, std::int32_t> newest_versions() const;

  // What a step updates besides weights: the optimizer's tensors, and the
  // velocity where weights are corrected. Copies, of the parameters that this
  // worker owns and has stepped, in memory of the host.
  struct StepState {
    Tensors optimizer;
    at::Tensor velocity;
  };
  std::map<ParameterId, StepState> step_states() const;
  void restore(const std::map<ParameterId, StepState>& states);

  // Keeps a copy of the same to restore later, if it is small enough to do so
  // in every run or the settings ask for it: whether it did.
  bool remember();
  void restore_remembered() { restore(remembered_); }

 private:
  // One version of a group.
  struct Slot {
    static constexpr std::int32_t kNone = -1;
    std::int32_t version = kNone;
    Tensors tensors;                // by position of the parameter in the group
    std::vector<Tensors> by_layer;  // the same, by position of the layer
  };
  struct Held {
    const WeightGroup* group = nullptr;
    std::vector<ParameterId> parameters;           // each once
    std::vector<std::vector<std::size_t>> places;  // of each layer's, in it
    std::vector<Slot> ring;
    bool is_owned = false;
    std::int32_t newest = 0;
    std::vector<Tensors> state;   // by place
    std::vector<StepRule> rules;  // by place
    Tensors velocity;             // by place; undefined where none is kept

    const Slot& slot(std::int32_t version) const;
    Slot& slot(std::int32_t version);
    // Sets by_layer from tensors.
    void arrange(Slot& slot) const;
  };
  struct Place {
    std::int32_t held = -1;
    std::size_t layer = 0;
  };

  Held make_held(const HeldWeights& held, WorkerId worker) const;
  const Held& held_group(WeightGroupId group) const;
  void step_group(Held& held, std::int32_t version, std::int64_t step,
                  const Gradients& gradients);
  void step_parameter(Held& held, std::size_t place, const at::Tensor& from,
                      at::Tensor& to, std::int64_t step,
                      const at::Tensor& gradient) const;

  const Network& network_;
  const Program& program_;
  const TrainingSettings& settings_;
  WorkerDevice& device_;
  std::vector<Held> held_;
  std::vector<std::int32_t> held_of_group_;  // -1: none
  std::vector<Place> place_of_layer_;
  std::map<ParameterId, StepState> remembered_;
};

}  // namespace pipewright
