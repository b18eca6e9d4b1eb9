// The runtime's answers; see runtime_link.h.

#include "cli/runtime_link.h"
#include "pipewright/runtime/channels/mpi_version.h"
#include "pipewright/runtime/libtorch_version.h"
#include "pipewright/runtime/profiling/profiler.h"

namespace pipewright::cli {

void enter_runtime(char**) {}

std::string libtorch() { return libtorch_version(); }

std::string mpi() { return mpi_version(); }

std::string mpi_threads() { return mpi_thread_level(); }

Result<Profile> measure_profile(const Model& model,
                                std::span<const int> microbatches, int workers,
                                const std::string& device,
                                std::function<void(double share)> progress) {
  ProfilerOptions options;
  options.workers = workers;
  options.device = device;
  options.progress = std::move(progress);
  return measured_profile(model, microbatches, options);
}

GpuReport gpus() { return gpu_report(); }

Result<void> find_devices(const std::vector<std::string>& kinds) {
  return pipewright::find_devices(kinds);
}

Result<InProcessChannelCosts> measure_channel() {
  return InProcessChannelCosts{channel_latency(Seconds(0.05)).median,
                               reduction_rate(Seconds(0.05))};
}

Result<LearningRate> learning_rate(const std::string& text, double rate,
                                   std::int64_t warm_up) {
  return parse_learning_rate(text, rate, warm_up);
}

Result<TrainReport> run_training(const Model& model,
                                 const TrainRequest& request,
                                 const TrainHooks& hooks) {
  return train(model, request, hooks);
}

Result<std::unique_ptr<Launch>> start_launch(const LaunchRequest& request) {
  return Launch::start(request);
}

Outcome follow_run(const Model& model, const TrainRequest& request) {
  return follow_training(model, request);
}

}  // namespace pipewright::cli
