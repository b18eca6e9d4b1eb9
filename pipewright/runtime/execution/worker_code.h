// A worker's part of a program made ready to run: what an action looks up in
// program and model is looked up once, so that a run only follows references.

#pragma once

#include <cstdint>
#include <vector>

#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/devices/worker_device.h"
#include "pipewright/runtime/execution/network.h"
#include "pipewright/runtime/execution/value_store.h"

namespace pipewright {

// One layer's share of a compute action.
struct LayerCode {
  LayerId id;
  const LayerFunction* function = nullptr;
  const Layer* layer = nullptr;
  const LayerCost* cost = nullptr;
  bool is_loss = false;
  bool has_private = false;
  bool has_storage = false;  // its output is not a view
  bool has_parameters = false;
  at::Tensor seed;  // of the gradient, where nobody uses the output
  std::int32_t version_offset = 0;  // of its weights, to the action's version
  std::vector<Value> frees;         // read by no later layer or action
};

struct WeightArrival {
  TransferId transfer;
  WeightGroupId group;
  std::int32_t version_offset = 0;
};

// An action but for its microbatch and version.
struct ActionCode {
  Samples samples;
  std::vector<LayerCode> layers;        // of compute, in the order of work
  bool draws = false;                   // a layer draws random numbers
  double steps_back = 0;                // of the weights that it reads
  std::vector<TransferId> takes;        // transfers it is the first to read
  std::vector<WeightArrival> arrivals;  // of weights, if not there yet
  std::vector<ReductionId> reductions;  // whose sums it waits for
  std::vector<Value> frees;             // at its end
};

class WorkerCode {
 public:
  // The arguments must outlive this object.
  WorkerCode(const Network& network, const Program& program, WorkerId worker,
             WorkerDevice& device);

  // For a run with that many repetitions of the body. The first call compiles.
  void prepare(int repetitions);
  // Of the action at that place of the prepared run.
  const ActionCode& at(std::int64_t position) const {
    return codes_[index_[place_in_sections(position)]];
  }

 private:
  std::size_t place_in_sections(std::int64_t position) const;
  void compile();
  ActionCode action_code(const Action& action) const;
  void add_layers(const Action& action, const Operation& operation,
                  ActionCode& code) const;
  LayerCode layer_code(LayerId layer, const Action& action,
                       const Operation& operation) const;
  void add_arrivals(const Action& action, ActionCode& code) const;
  void add_frees(const Action& action, ActionCode& code) const;
  bool is_held(const Value& value) const;

  const Network& network_;
  const Program& program_;
  const WorkerId worker_;
  WorkerDevice& device_;
  std::vector<WeightGroupId> group_of_layer_;
  const std::int64_t num_prologue_, num_body_;
  std::int64_t end_of_body_ = 0;    // place in the prepared run
  std::vector<ActionCode> codes_;   // the distinct ones
  std::vector<std::size_t> index_;  // by place in prologue, body, epilogue
};

}  // namespace pipewright
