// One worker of a run: it goes through its actions one after the other and
// blocks only where it reads what another worker has to give. It knows its own
// values and weights, its channel, and its device, whatever that is.

#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "pipewright/plan/program/action_cursor.h"
#include "pipewright/plan/program/place.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/channels/channel.h"
#include "pipewright/runtime/devices/worker_device.h"
#include "pipewright/runtime/execution/gradient_sums.h"
#include "pipewright/runtime/execution/gradients.h"
#include "pipewright/runtime/execution/layer_statistics.h"
#include "pipewright/runtime/execution/layer_stopwatch.h"
#include "pipewright/runtime/execution/network.h"
#include "pipewright/runtime/execution/recorded_actions.h"
#include "pipewright/runtime/execution/run_gate.h"
#include "pipewright/runtime/execution/value_store.h"
#include "pipewright/runtime/execution/whole_step.h"
#include "pipewright/runtime/execution/worker_code.h"
#include "pipewright/runtime/training/score.h"
#include "pipewright/runtime/training/training.h"
#include "pipewright/runtime/weights/weight_store.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright {

// A loss or a gradient that is NaN or infinite: training cannot go
// on. Thrown before any stage gets to the step of that minibatch; but of a
// gradient, where no norm of all is asked for, only before the worker's own.
class LossIsNotFinite : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The loss of some samples of a microbatch.
struct PartialLoss {
  std::int64_t microbatch = 0;
  Samples samples;
  double mean = 0;
  Score score;  // of an evaluation
};

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
  void time_layers(LayerStopwatch* stopwatch) { stopwatch_ = stopwatch; }

  // What it was doing when it threw: "step 5, worker 1, stage 0, forward of
  // microbatch 3, layer fc1".
  std::string activity() const;

  // Its actions as recordings: whether there are any, and why not.
  const RecordedActions& recorded() const { return recorded_; }

  WorkerId id() const { return id_; }
  std::vector<PartialLoss> take_losses() { return std::move(losses_); }
  std::vector<Span> take_spans() { return std::move(spans_); }
  const WeightStore& weights() const { return weights_; }
  WeightStore& weights() { return weights_; }
  const LayerStatistics& statistics() const { return statistics_; }
  std::size_t num_values_held() const { return values_.num_values(); }

 private:
  // Where a repetition begins: goes on with the epilogue of a run with as many.
  ActionCursor at_epilogue(const ActionCursor& cursor, int repetitions) const;
  void begin_step(bool is_first_of_run);
  void begin(const Action& action);
  Place place() const {
    return place_of(id_, current_, absolute(current_.microbatch),
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
  void compute(const Action& action, const ActionCode& code);
  std::vector<Seconds*> layer_times(const Action& action,
                                    const ActionCode& code);
  std::vector<const void*> addresses() const;
  // Of a program that is a body alone, as all are that are recorded.
  std::size_t place_in_body(std::int64_t position) const;
  // Copies messages to where a recording at that place reads them; -1: none.
  void wait_for_reads(const Action& action, const ActionCode& code,
                      std::int64_t position);
  void wait_for_next(ActionCursor cursor);
  void wait_for_reductions(const Action& action, const ActionCode& code);
  const Tensors* own_gradients(LayerId layer, MicrobatchId microbatch) const {
    return gradients_.find(layer, program_.minibatch_of(microbatch));
  }
  void complete_gradients(std::span<const StageId> stages,
                          MicrobatchId microbatch);
  void forward(const Action& action, const ActionCode& code);
  void backward(const Action& action, const ActionCode& code);
  void backward_inputs(const LayerCode& layer, const Action& action,
                       const ActionCode& code);
  void backward_weights(const LayerCode& layer, MicrobatchId microbatch,
                        Samples samples);
  void end_layer(const LayerCode& layer, MicrobatchId microbatch);
  void record_loss(const LayerCode& layer, MicrobatchId microbatch,
                   Samples samples, const at::Tensor& loss,
                   const Tensors& weights, Tensors* statistics);
  void read_late_losses();
  void send(const Action& action, const ActionCode& code,
            std::int64_t position);
  void copy_recorded(const Action& send);
  void reduce(const Action& action);
  void check_gradients() const;
  void step(const Action& action);

  void load_samples(const Action& action, const ActionCode& code);
  void add_sample(const at::Tensor& sample);
  bool reads_number(const ActionCode& code) const;
  void load_inputs(const LayerCode& layer, MicrobatchId microbatch,
                   Samples samples);
  void load_kept(const LayerCode& layer, MicrobatchId microbatch,
                 Samples samples);
  at::Tensor output_of(LayerId layer, MicrobatchId microbatch,
                       Samples samples) const;
  at::Tensor first_of(Value value, MicrobatchId microbatch,
                      Samples samples) const;
  bool adds_to_gradient(const LayerCode& layer, MicrobatchId microbatch,
                        Samples samples, const Tensors& weights,
                        const at::Tensor& gradient);
  void add_gradient(LayerId layer, MicrobatchId microbatch, Samples samples,
                    at::Tensor gradient);
  std::int64_t absolute(MicrobatchId microbatch) const {
    return done_ * program_.num_microbatches + microbatch.value;
  }

  const Network& network_;
  const Program& program_;
  const WorkerId id_;
  const TrainingSettings& settings_;
  WorkerDevice& device_;

  WorkerCode code_;
  WeightStore weights_;
  ValueStore values_;
  GradientSums gradients_;
  RecordedActions recorded_;
  WholeStep* whole_step_ = nullptr;
  LayerStatistics statistics_;
  Gradients reduced_;  // sums that the Step or Reduce that comes now reads
  double norm_ = 0;    // likewise
  std::vector<PartialLoss> losses_;
  // Of the same microbatches in lists of one or more, where the device does not
  // compute at once: they are read after the last action.
  std::vector<at::Tensor> late_losses_;
  std::vector<Span> spans_;

  // Of the run in progress.
  const MicrobatchSource* source_ = nullptr;
  Channel* channel_ = nullptr;
  RunGate* gate_ = nullptr;
  std::int64_t done_ = 0;
  Action current_;
  LayerId current_layer_;

  LayerStopwatch* stopwatch_ = nullptr;

  // Of the layer or action in progress; kept for their memory.
  Tensors inputs_, carried_, sums_;
  // Of the model's inputs, in the order of their use; then the microbatch's
  // number, if a layer draws by it.
  Tensors samples_;
  std::size_t next_sample_ = 0;
  at::Tensor loss_;  // to be read after the last action
  bool draws_ = false;
  KeptTensors kept_;
  Tensors moved_weights_;
  Values message_;
  Gradients complete_;
  std::vector<Contribution> contributions_;
};

}  // namespace pipewright
