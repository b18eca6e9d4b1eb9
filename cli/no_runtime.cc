// The answers of a build without LibTorch; see runtime_link.h.

#include "cli/runtime_link.h"

namespace pipewright::cli {
namespace {

Error no_training() {
  return bad_configuration(
      "training needs the build with LibTorch, and this one is without",
      "simulate instead, with pipewright simulate PLAN");
}

}  // namespace

std::string libtorch() { return "none"; }

std::string mpi() { return "none"; }

std::string mpi_threads() { return "none"; }

Result<Profile> measure_profile(const Model&, std::span<const int>, int,
                                std::function<void(double share)>) {
  return bad_configuration(
      "measuring needs the build with LibTorch, and this one is without",
      "estimate instead, with --analytic --device KIND");
}

Result<InProcessChannelCosts> measure_channel() { return no_training(); }

Result<int> words_kept_by(const OptimizerChoice&) { return no_training(); }

Result<LearningRate> learning_rate(const std::string&, double, std::int64_t) {
  return no_training();
}

Result<TrainReport> run_training(const Model&, const TrainRequest&,
                                 const TrainHooks&) {
  return no_training();
}

Result<std::unique_ptr<Launch>> start_launch(const LaunchRequest&) {
  return no_training();
}

Outcome follow_run(const Model&, const TrainRequest&) { return {}; }

}  // namespace pipewright::cli
