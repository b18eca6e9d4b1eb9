// What a training is asked to do. No LibTorch type is seen here.

#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>

#include "pipewright/plan/optimizer_choice.h"
#include "pipewright/plan/plan.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/plan/program/repeated_steps.h"
#include "pipewright/runtime/devices/device_registry.h"
#include "pipewright/runtime/training/learning_rate.h"

namespace pipewright {

class Transport;

// How weights move, beyond what the program says.
struct MethodSettings {
  // PipeMare's T1: steps until a delayed stage has its full rate; 0: off,
  // negative: a quarter of the steps.
  std::int64_t rescheduling_steps = 0;
  // PipeMare's T2: how much of the velocity is older than the delay.
  double correction_decay = 0.135;
  // PipeMare's T3: steps under `warm_up`, a synchronous program of the same
  // plan, before those under the plan's own.
  std::int64_t warm_up_steps = 0;
  Program warm_up;
};

// What becomes of a step whose loss or gradient is not finite. It never changes
// weights or the optimizer's state.
enum class NotFinitePolicy {
  Stop,    // training ends
  Repeat,  // it is run once more; if it is not finite again, training ends
  Skip,    // ... training goes on with the step after it
};

struct TrainRequest {
  Plan plan;
  Program program;  // the plan's, validated
  MethodSettings method;
  std::string data;  // as open_dataset() takes it
  std::filesystem::path run;
  std::int64_t steps = 0;  // in all; 0: as many as the epochs take
  std::int64_t epochs = 0;
  // What to evaluate on: other data, or a share of `data` that is then not
  // trained on. Neither: no evaluation.
  std::string held_out_data;
  double held_out_share = 0;
  std::int64_t evaluate_every = 0;  // steps; 0: every epoch. Always at the end
  OptimizerChoice optimizer;
  // Above 0: clips gradients to this global norm; the program must have one
  // (LowerOptions).
  double max_norm = 0;
  LearningRate rate;
  std::uint64_t seed = 1;
  // Other than Stop only where every step is synchronous.
  NotFinitePolicy not_finite = NotFinitePolicy::Stop;
  std::int64_t checkpoint_every = 0;  // steps; 0: only at the end
  bool resume = false;
  // Whether devices that can may be given a step's actions as recordings (CUDA
  // graphs) instead of kernel by kernel.
  bool may_record = true;
  KernelChoice kernels;  // of GPUs
  int first_gpu = 0;     // of this process; see open_devices()
  // Above 0: at this step a fault is injected, so training must come to it.
  std::int64_t injected_step = 0;
  Transport* transport = nullptr;  // to other ranks; null: all workers here
  // Whether ranks measure TrainReport::handovers, where these are to be had.
  bool measures_handovers = false;
};

// Whether every worker is on a core of this machine.
inline bool are_on_cores(const Plan& plan) {
  return std::all_of(plan.device_kinds.begin(), plan.device_kinds.end(),
                     [](const std::string& kind) { return kind == "cpu"; });
}

// Whether devices that can will be given a step's actions as recordings.
inline bool records_actions(const TrainRequest& request) {
  return request.may_record && repeats_steps(request.program);
}

}  // namespace pipewright
