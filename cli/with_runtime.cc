// The runtime's answers; see runtime_link.h.

#include "cli/runtime_link.h"
#include "pipewright/runtime/channels/launcher.h"
#include "pipewright/runtime/channels/message_checksum.h"
#include "pipewright/runtime/channels/mpi_version.h"
#include "pipewright/runtime/checkpoint/checkpoint.h"
#include "pipewright/runtime/layers/exported_weights.h"
#include "pipewright/runtime/layers/random_operators.h"
#include "pipewright/runtime/libtorch_version.h"
#include "pipewright/runtime/lost_device.h"
#include "pipewright/runtime/out_of_memory.h"
#include "pipewright/runtime/ranks/injection.h"
#include "pipewright/runtime/unsupported_operator.h"

namespace pipewright::cli {
namespace {

// What `work` returns, or OutOfMemory, WorkersDisagree, WorkerLost where a
// device fails or, for an operator that cannot run here, BadConfiguration.
template <class Work>
auto guarded(Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const CorruptedMessage& message) {
    return error_of(message);
  } catch (const std::exception& exception) {
    if (const auto error = out_of_memory(exception)) return *error;
    if (const auto error = unsupported_operator(exception)) return *error;
    if (const auto error = lost_device(exception)) return *error;
    throw;
  }
}

}  // namespace

void enter_runtime(char**) {}

std::string libtorch() { return libtorch_version(); }

std::string mpi() { return mpi_version(); }

std::string mpi_threads() {
  return mpi_thread_level(launcher() == Launcher::Mpi);
}

Result<Profile> measure_profile(const Model& model,
                                std::span<const int> microbatches,
                                const ProfilerOptions& options) {
  if (auto good = check_exported(model); !good) return good.error();
  return guarded(
      [&] { return measured_profile(model, microbatches, options); });
}

Result<PipelineRun> measure_pipeline(const Model& model, int microbatch,
                                     const ProfilerOptions& options) {
  return guarded([&] { return measured_pipeline(model, microbatch, options); });
}

GpuReport gpus() { return gpu_report(); }

Result<void> find_devices(const std::vector<std::string>& kinds,
                          int first_gpu) {
  return pipewright::find_devices(kinds, first_gpu);
}

Result<InProcessChannelCosts> measure_channel() {
  return InProcessChannelCosts{channel_latency(Seconds(0.05)).median,
                               reduction_rate(Seconds(0.05))};
}

Result<void> check_model(const Model& model, const Plan& plan) {
  if (auto good = check_exported(model); !good) return good;
  return check_random_operators(model, plan);
}

Result<std::string> hash_of_weights(const Model& model) {
  return weights_hash(model);
}

Result<LearningRate> learning_rate(const std::string& text, double rate,
                                   std::int64_t warm_up) {
  return parse_learning_rate(text, rate, warm_up);
}

Result<void> find_saved(const std::filesystem::path& run) {
  return find_checkpoint(run);
}

Result<TrainReport> run_training(const Model& model,
                                 const TrainRequest& request,
                                 const TrainHooks& hooks) {
  return guarded([&] { return train(model, request, hooks); });
}

Result<std::unique_ptr<Launch>> start_launch(const LaunchRequest& request) {
  return Launch::start(request);
}

Result<Outcome> follow_run(const Model& model, const TrainRequest& request) {
  return guarded([&] { return follow_training(model, request); });
}

Result<std::int64_t> injected_step(const std::string& fault,
                                   const Program& program) {
  PIPEWRIGHT_TRY(const Injection injection, parse_injection(fault));
  if (auto happens = check_injection(injection, program); !happens)
    return happens.error();
  return injection.kind == Injection::Kind::Missing ? 0 : injection.step;
}

}  // namespace pipewright::cli
