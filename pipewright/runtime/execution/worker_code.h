// A worker's part of a program made ready to run: what an action looks up in
// program and model is looked up once, and where each value is last read is
// known, so that a run only follows references.
//
// Sections stay sections: a run of any length has the code of a few
// repetitions, because far from both ends of a run all repetitions are alike.

#pragma once

#include <cstdint>
#include <vector>

#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/execution/lifetimes.h"
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
  bool has_storage = false;  // its output is no view
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
  double steps_back = 0;                // of the weights that it reads
  std::vector<TransferId> takes;        // transfers it is the first to read
  std::vector<WeightArrival> arrivals;  // of weights, if not there yet
  std::vector<ReductionId> reductions;  // whose sums it waits for
  std::vector<Value> frees;             // at its end
};

class WorkerCode {
 public:
  // All outlive the code.
  WorkerCode(const Network& network, const Program& program, WorkerId worker);

  // For a run with that many repetitions of the body. Only the first of its
  // kind costs anything.
  void prepare(int repetitions);
  // Of the action at that place of the prepared run.
  const ActionCode& at(std::int64_t position) const {
    return codes_[static_cast<std::size_t>(index_[window_position(position)])];
  }

 private:
  std::size_t window_position(std::int64_t position) const;
  ActionCode made(const Action& action, const ActionLife& life) const;
  void add_layers(const Action& action, const Operation& operation,
                  ActionCode& code) const;
  LayerCode layer_code(LayerId layer, const Action& action,
                       const Operation& operation) const;
  void add_arrivals(const Action& action, ActionCode& code) const;
  void place_frees(const Action& action, const std::vector<Value>& frees,
                   ActionCode& code) const;

  const Network& network_;
  const Program& program_;
  const WorkerId worker_;
  std::vector<WeightGroupId> group_of_layer_;
  const std::int64_t num_prologue_, num_body_;
  const int reach_;  // repetitions from the first to the last action of a
                     // microbatch, prologue and epilogue included, plus one
  int repetitions_ = -1, window_ = -1;  // prepared for, coded for
  std::vector<ActionCode> codes_;       // the distinct ones
  std::vector<std::int32_t> index_;     // by place in the window
};

}  // namespace pipewright
