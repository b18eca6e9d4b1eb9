// Settings and results of a run, for everything that can run a program: the
// executor (a thread per worker), the interpreter of a program, and the plain
// sequential trainer. They give the same bits where mathematics says so.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "pipewright/model/model.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/layers/layer_function.h"
#include "pipewright/runtime/optimizers/optimizer.h"

namespace pipewright {

// One of the model's inputs for a whole microbatch of the run. Called on
// several threads at once; the same arguments give the same tensor.
using MicrobatchSource =
    std::function<at::Tensor(int input, std::int64_t microbatch)>;

// How a parameter is stepped.
struct StepSettings {
  std::shared_ptr<const Optimizer> optimizer;
  // The rate of step k, counted from 0.
  std::function<double(std::int64_t step)> learning_rate;
};

struct TrainingSettings {
  std::uint64_t seed = 1;  // of initial parameters and dropout
  std::shared_ptr<const Optimizer> optimizer;
  // The rate of step k, counted from 0.
  std::function<double(std::int64_t step)> learning_rate;
  // Instead of these two, for parameters of groups.
  std::map<ParameterId, StepSettings> groups;

  // Above 0: gradients are clipped to this global norm, where the program has
  // one.
  double max_norm = 0;

  // Above 0: evaluation, without dropout and new statistics, which counts this
  // many samples; those after them only fill the last microbatch.
  std::int64_t evaluated_samples = 0;
  bool is_training() const { return evaluated_samples == 0; }

  // Whether devices that can may be given a step's actions as recordings.
  bool may_record = true;

  // Whether a run that is not finite must be undone, however much it takes to
  // remember the optimizer's state before each.
  bool always_remembers = false;

  // PipeMare's T1: steps until a delayed stage has its full rate; 0 is off.
  std::int64_t rescheduling_steps = 0;
  // The step they are counted from: a synchronous warm-up ends there.
  std::int64_t rescheduling_start = 0;
  // PipeMare's T2: how much of the velocity estimate is older than the delay.
  double correction_decay = 0.135;
};

// The state after a run.
struct Trained {
  Tensors parameters;               // by ParameterId
  std::vector<Tensors> statistics;  // by LayerId; empty for most layers
  std::vector<double> losses;       // mean of each microbatch
};

// The rate of step k at a stage whose forward reads weights that are `delay`
// steps old:
// rate / max(1, delay)^(1 - min((k - rescheduling_start) / rescheduling_steps,
// 1)).
double delayed_rate(const TrainingSettings& settings, std::int64_t step,
                    double delay);

// Steps a parameter of a stage with this delay. `state` is the optimizer's;
// empty before the first step.
void update_parameter(const TrainingSettings& settings, ParameterId id,
                      at::Tensor& weights, const at::Tensor& gradient,
                      Tensors& state, double delay, std::int64_t step);

// The gradient of the minibatch's mean loss with respect to the output of a
// layer that no layer reads, for `samples` of the minibatch: their share for a
// loss, 0 for any other layer.
at::Tensor seed_gradient(const Layer& layer, std::int64_t samples,
                         std::int64_t minibatch_samples);
bool is_loss(const Layer& layer);

// Whether all bits are the same.
bool is_identical(const Trained& a, const Trained& b);

// While this object lives, kernels of the calling thread run on that thread
// alone: their bits then do not depend on the number of threads.
class SingleThreaded {
 public:
  SingleThreaded();
  ~SingleThreaded();
  SingleThreaded(const SingleThreaded&) = delete;
  SingleThreaded& operator=(const SingleThreaded&) = delete;

 private:
  int before_;
};

}  // namespace pipewright
