// What commands ask of the runtime, answered by with_runtime.cc or, in a build
// without LibTorch, by no_runtime.cc.

#pragma once

#include <functional>
#include <span>

#include "pipewright/base/result.h"
#include "pipewright/model/model.h"
#include "pipewright/profile/profile.h"
#include "pipewright/runtime/ranks/launch.h"
#include "pipewright/runtime/training/trainer.h"
#include "pipewright/simulate/in_process_costs.h"

namespace pipewright::cli {

// Versions; "none" in a build without.
std::string libtorch();
std::string mpi();
std::string mpi_threads();  // "MPI_THREAD_MULTIPLE"

// State per weight that the optimizer keeps.
Result<int> words_kept_by(const OptimizerChoice& choice);

// Each fails with BadConfiguration in a build without the runtime.
Result<Profile> measure_profile(const Model& model,
                                std::span<const int> microbatches, int workers,
                                std::function<void(double share)> progress);
Result<InProcessChannelCosts> measure_channel();
Result<LearningRate> learning_rate(const std::string& text, double rate,
                                   std::int64_t warm_up);
Result<TrainReport> run_training(const Model& model,
                                 const TrainRequest& request,
                                 const TrainHooks& hooks);

Result<std::unique_ptr<Launch>> start_launch(const LaunchRequest& request);
Outcome follow_run(const Model& model, const TrainRequest& request);

}  // namespace pipewright::cli
