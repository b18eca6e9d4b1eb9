// What commands ask of the runtime. There are two programs with the same
// commands: `pipewright` starts fast, for it loads neither LibTorch nor MPI
// (no_runtime.cc), and becomes `pipewright-runtime` (with_runtime.cc) where a
// command needs them.

#pragma once

#include <functional>
#include <span>

#include "pipewright/base/result.h"
#include "pipewright/model/model.h"
#include "pipewright/profile/profile.h"
#include "pipewright/runtime/devices/device_registry.h"
#include "pipewright/runtime/profiling/profiler.h"
#include "pipewright/runtime/ranks/launch.h"
#include "pipewright/runtime/training/trainer.h"
#include "pipewright/simulate/in_process_costs.h"

namespace pipewright::cli {

// Called by a command before all else that is declared here, once its arguments
// are parsed. Does nothing in pipewright-runtime. pipewright becomes
// pipewright-runtime, which starts the command again with the same arguments
// and the same process id. Returns where a build without LibTorch has no such
// program; the functions below then fail.
void enter_runtime(char** arguments);

// Versions; "none" without the runtime.
std::string libtorch();
std::string mpi();
std::string mpi_threads();  // "MPI_THREAD_MULTIPLE"

// GPUs that workers can be on.
GpuReport gpus();

// Each fails with BadConfiguration without the runtime.
Result<Profile> measure_profile(const Model& model,
                                std::span<const int> microbatches,
                                const ProfilerOptions& options);
Result<PipelineRun> measure_pipeline(const Model& model, int microbatch,
                                     const ProfilerOptions& options);
Result<InProcessChannelCosts> measure_channel();
// Also fails with it unless this machine has a device of that kind for each
// worker; see device_registry.h.
Result<void> find_devices(const std::vector<std::string>& kinds, int first_gpu);
// Also fails with MissingInput or MalformedInput unless an exported model's
// weights are there, and with BadConfiguration if a worker of the plan is on a
// device that cannot run one of its operators, as far as that is known.
Result<void> check_model(const Model& model, const Plan& plan);
// A hash of the weights that an exported model starts with, else "".
Result<std::string> hash_of_weights(const Model& model);
Result<LearningRate> learning_rate(const std::string& text, double rate,
                                   std::int64_t warm_up);
Result<TrainReport> run_training(const Model& model,
                                 const TrainRequest& request,
                                 const TrainHooks& hooks);

// Fails with MissingInput if the run folder has no checkpoint.
Result<void> find_saved(const std::filesystem::path& run);

Result<std::unique_ptr<Launch>> start_launch(const LaunchRequest& request);
// Fails with OutOfMemory; other errors are in the outcome.
Result<Outcome> follow_run(const Model& model, const TrainRequest& request);

// The step of a fault on purpose (runtime/ranks/injection.h). Fails with
// BadConfiguration where it would never happen.
Result<std::int64_t> injected_step(const std::string& fault,
                                   const Program& program);

}  // namespace pipewright::cli
