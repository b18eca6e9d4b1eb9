// One worker of a run: it goes through its actions one after the other and
// blocks only where it reads what another worker has to give. It knows its
// layers (worker_layers.h), its channel, and its device, whatever that is.

#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pipewright/plan/program/action_cursor.h"
#include "pipewright/plan/program/place.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/channels/channel.h"
#include "pipewright/runtime/devices/worker_device.h"
#include "pipewright/runtime/execution/gradients.h"
#include "pipewright/runtime/execution/network.h"
#include "pipewright/runtime/execution/recorded_actions.h"
#include "pipewright/runtime/execution/run_gate.h"
#include "pipewright/runtime/execution/whole_step.h"
#include "pipewright/runtime/execution/worker_code.h"
#include "pipewright/runtime/execution/worker_layers.h"
#include "pipewright/runtime/training/training.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright {

class Worker {
 public:
  using Clock = std::chrono::steady_clock;

  // All outlive the worker.
  Worker(const Network& network, const Program& program, WorkerId id,
         const TrainingSettings& settings, WorkerDevice& device);

  // Before every run: `done` minibatches have been trained, and the run starts
  // with the parameters and statistics of `before`.
  void prepare(int minibatches, std::int64_t done, const Trained& before);
  // Returns when the device has finished. Throws what a kernel throws, and
  // Cancelled.
  void run(int minibatches, const MicrobatchSource& source, Channel& channel,
           Clock::time_point start, RunGate& gate);

  // Steps are given together with those of other workers, where that is
  // possible; null: never.
  void join(WholeStep* whole_step) { whole_step_ = whole_step; }

  // Times every layer from now on; null: none. Not with replicas, which would
  // write at once.
  void time_layers(LayerStopwatch* stopwatch) { layers_.time(stopwatch); }

  // What it was doing when it threw: "step 5, worker 1, stage 0, forward of
  // microbatch 3, layer fc1".
  std::string activity() const;

  // Its actions as recordings: whether there are any, and why not.
  const RecordedActions& recorded() const { return recorded_; }

  WorkerId id() const { return id_; }
  std::vector<PartialLoss> take_losses() { return layers_.losses().take(); }
  std::vector<Span> take_spans() { return std::move(spans_); }
  const WeightStore& weights() const { return layers_.weights(); }
  WeightStore& weights() { return layers_.weights(); }
  const LayerStatistics& statistics() const { return layers_.statistics(); }
  std::size_t num_values_held() const { return layers_.values().num_values(); }

 private:
  // Where a repetition begins: goes on with the epilogue of a run with as many.
  ActionCursor at_epilogue(const ActionCursor& cursor, int repetitions) const;
  void begin_step(bool is_first_of_run);
  void begin(const Action& action);
  Place place() const {
    return place_of(id_, current_, layers_.absolute(current_.microbatch),
                    program_.num_microbatches);
  }
  // Otherwise one of a run, and the updates of the first and the last.
  bool times_all_steps() const;
  bool lends_messages() const;
  bool gives_whole_step() const;
  // From the start of a repetition to its first Reduce or Step.
  void run_whole_step(ActionCursor& cursor, bool is_timed);
  Span& added_span(const Action& action);
  void execute(const Action& action, const ActionCode& code,
               std::int64_t position);
  void run_compute(const Action& action, const ActionCode& code,
                   std::int64_t position);
  std::vector<Seconds*> layer_times(const Action& action,
                                    const ActionCode& code);
  // Of a program that is a body alone, as all are that are recorded.
  std::size_t place_in_body(std::int64_t position) const;
  // Copies messages to where a recording at that place reads them; -1: none.
  void wait_for_reads(const Action& action, const ActionCode& code,
                      std::int64_t position);
  void wait_for_next(ActionCursor cursor);
  void wait_for_reductions(const Action& action, const ActionCode& code);
  const Tensors* own_gradients(LayerId layer, MicrobatchId microbatch) const {
    return layers_.gradients().find(layer, program_.minibatch_of(microbatch));
  }
  void complete_gradients(std::span<const StageId> stages,
                          MicrobatchId microbatch);
  void send(const Action& action, const ActionCode& code,
            std::int64_t position);
  void copy_recorded(const Action& send);
  void reduce(const Action& action);
  void check_gradients() const;
  void step(const Action& action);

  const Network& network_;
  const Program& program_;
  const WorkerId id_;
  const TrainingSettings& settings_;
  WorkerDevice& device_;

  WorkerCode code_;
  WorkerLayers layers_;
  RecordedActions recorded_;
  WholeStep* whole_step_ = nullptr;
  Gradients reduced_;  // sums that the Step or Reduce that comes now reads
  double norm_ = 0;    // likewise
  std::vector<Span> spans_;

  // Of the run in progress.
  Channel* channel_ = nullptr;
  Action current_;

  // Of the action in progress; kept for their memory.
  Tensors sums_;
  Values message_;
  Gradients complete_;
  std::vector<Contribution> contributions_;
};

}  // namespace pipewright
