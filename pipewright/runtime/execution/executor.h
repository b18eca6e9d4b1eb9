// Runs a program: one thread per worker, tensors handed over in the process.
//
//   Executor executor(model, program, settings);
//   Result<Executed> done = executor.run(source, 100);
//
// Over a transport of several processes each runs its own workers. The leader's
// executor is used as if it were alone; the others are in follow() and do what
// it does.
//
// Any program lower() makes is run; nothing here knows a schedule, a planner or
// a method by name. When a worker fails all stop, and the error names worker,
// stage, action, microbatch and layer.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/runtime/devices/worker_device.h"
#include "pipewright/runtime/execution/run_gate.h"
#include "pipewright/runtime/execution/training_state.h"
#include "pipewright/runtime/training/score.h"
#include "pipewright/runtime/training/training.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright {

struct Network;
class Channel;
struct CommandMessage;
class LayerStopwatch;
struct PartialLoss;
struct RunReport;
class Transport;
class WholeStep;
class Worker;
class WorkerThreads;

struct Executed {
  std::vector<double> losses;  // of the run's microbatches
  Score score;                 // of an evaluation
  // Measured: spans, duration, busy time; the peak of a worker's memory, by
  // its allocator, in one sum.
  Timeline timeline;
};

class Executor {
 public:
  using Devices = std::vector<std::unique_ptr<WorkerDevice>>;

  // `transport` outlives the executor; without one all workers are here. A
  // device for each worker that is here; none: a core for each.
  Executor(Model model, Program program, TrainingSettings settings,
           Transport* transport = nullptr, Devices devices = {});
  ~Executor();

  // Trains on, from where the last run ended: microbatches count from the start
  // of training. At least program.minibatches_outside minibatches, and fewer
  // than asked for where hooks.is_to_end() says so. Fails with
  // LossNotFinite: trained() and state() are then those after the last step
  // before that loss; or, where workers are not at the same step (a gradient is
  // not finite, and others have made the step; a program fills and drains) or
  // read losses late, as before the run. To go on from there, resume() what
  // state() gives. With OutOfMemory if this
  // machine's or a device's memory is too small. Or with WorkerLost: trained()
  // is then as before the run.
  Result<Executed> run(const MicrobatchSource& source, int minibatches,
                       const RunHooks& hooks = {});

  // After the last run that went well; of several processes what is here.
  const Trained& trained() const { return trained_; }

  // Copies; not after WorkerLost, nor without has_state(). How many minibatches
  // it has seen is in it. Of several processes the leader's is whole.
  TrainingState state();
  // False after a LossNotFinite that goes back to before the run, if the
  // optimizer's state was too large to be copied then.
  bool has_state() const { return has_state_; }
  void resume(const TrainingState& state);

  // Does what the leader's executor does, until a command comes that is not for
  // an executor. If `source` is an error every run fails with it, on all
  // processes.
  CommandMessage follow(const Result<MicrobatchSource>& source);

  // Times every layer from now on; see Worker. Null: none.
  void time_layers(LayerStopwatch* stopwatch);

  // Whether the next run will be as fast as the last: devices that record have
  // done so.
  bool is_settled() const;
  // Why a worker's actions are given to its device kernel by kernel, though the
  // device can record; empty otherwise.
  std::string why_not_recorded() const;
  // "one for the step of all workers", or "one for each action", and why; empty
  // if nothing is recorded.
  std::string recorded_as() const;

  // Memory asked of the system for tensors of the workers, so far.
  Bytes reserved() const;

  // Values still held by workers after a run: 0, or lifetimes are wrong.
  std::size_t num_values_held() const;

 private:
  void join_workers();
  Result<Executed> run_here(const Result<MicrobatchSource>& source,
                            int minibatches, const RunHooks& hooks);
  WorkerThreads& threads();  // started by the first call
  void for_each_worker(const std::function<void(Worker&)>& work);
  std::vector<std::unique_ptr<Channel>> connected_channels();
  // Lowers `minibatches` where hooks.is_to_end() ends the run early.
  RunReport run_workers(const MicrobatchSource& source, int& minibatches,
                        const RunHooks& hooks);
  TrainingState state_here();
  void resume_here(const TrainingState& state);
  Result<void> collect(int minibatches);
  void copy_trained(const Worker& worker);
  void keep_last_good(RunReport& report);
  void keep_last_step(std::int32_t last, std::vector<PartialLoss> losses);
  void share();

  TrainingSettings settings_;
  Program program_;
  std::unique_ptr<Transport> own_transport_;  // where none is given
  Transport* transport_;
  std::unique_ptr<const Network> network_;
  Devices devices_;                               // of the workers here
  std::vector<std::unique_ptr<Worker>> workers_;  // those here
  std::unique_ptr<WholeStep> whole_step_;         // where it is possible
  std::unique_ptr<WorkerThreads> threads_;        // null: not yet needed
  Trained trained_;
  // By ParameterId, after a loss that is not finite: another process has it
  // newer. Else empty.
  std::vector<bool> stale_;
  std::int64_t minibatches_done_ = 0;
  bool has_state_ = true;
  bool has_failed_ = false;  // in the last run, on any process
};

}  // namespace pipewright
