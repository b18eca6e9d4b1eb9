// Runs a program: one thread per worker, tensors handed over in the process.
//
//   Executor executor(model, program, settings);
//   Result<Executed> done = executor.run(source, 100);
//
// Any program lower() makes is run; nothing here knows a schedule, a planner or
// a method by name. When a worker fails all stop, and the error names worker,
// stage, action, microbatch and layer.

#pragma once

#include <memory>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/runtime/training.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright {

struct Network;
class Worker;

struct Executed {
  std::vector<double> losses;  // of the run's microbatches
  Timeline timeline;           // measured: spans, duration, busy time
};

// All that training goes on from, under whatever program.
struct TrainingState {
  std::int64_t minibatches = 0;     // done
  Tensors parameters;               // by ParameterId
  std::vector<Tensors> statistics;  // by LayerId
  // By ParameterId: none before the first step.
  std::vector<Tensors> optimizer;
  Tensors velocity;  // undefined where weights are not corrected
};

class Executor {
 public:
  Executor(Model model, Program program, TrainingSettings settings);
  ~Executor();

  // Trains on, from where the last run ended: microbatches count from the start
  // of training. At least program.minibatches_outside minibatches. Fails with
  // WorkerLost or LossNotFinite; trained() then is as before the run.
  Result<Executed> run(const MicrobatchSource& source, int minibatches);

  // After the last run that went well.
  const Trained& trained() const { return trained_; }

  // Copies; only after a run that went well, or before any.
  TrainingState state() const;
  void resume(const TrainingState& state);

  // Values still held by workers after a run: 0, or lifetimes are wrong.
  std::size_t num_values_held() const;

 private:
  void collect(int minibatches);

  TrainingSettings settings_;
  Program program_;
  std::unique_ptr<const Network> network_;
  std::vector<std::unique_ptr<Worker>> workers_;
  Trained trained_;
  std::int64_t minibatches_done_ = 0;
};

}  // namespace pipewright
