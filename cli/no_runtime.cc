// The answers of the program without LibTorch; see runtime_link.h.

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>
#include <system_error>

#include "cli/command.h"
#include "cli/runtime_link.h"

namespace pipewright::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProgram = "pipewright-runtime";

// Beside this program in a build folder, under libexec/ where it is installed.
fs::path runtime_program() {
  std::error_code ignored;
  const fs::path folder =
      fs::read_symlink("/proc/self/exe", ignored).parent_path();
  const fs::path installed =
      folder.parent_path() / "libexec" / "pipewright" / kProgram;
  return fs::exists(installed, ignored) ? installed : folder / kProgram;
}

Error missing(const std::string& what, const std::string& instead) {
  return bad_configuration(what + " needs the build with LibTorch, and " +
                               runtime_program().string() + " is missing",
                           instead);
}

Error no_training() {
  return missing("training", "simulate instead, with pipewright simulate PLAN");
}

}  // namespace

void enter_runtime(char** arguments) {
  const fs::path program = runtime_program();
  std::cout << std::flush;
  ::execv(program.c_str(), arguments);
  if (errno != ENOENT)
    say("pipewright: cannot start " + program.string() + ": " +
        std::strerror(errno));
}

std::string libtorch() { return "none"; }

std::string mpi() { return "none"; }

std::string mpi_threads() { return "none"; }

GpuReport gpus() {
  GpuReport report;
  report.why_none = "this build is without LibTorch";
  return report;
}

Result<Profile> measure_profile(const Model&, std::span<const int>,
                                const ProfilerOptions&) {
  return missing("measuring",
                 "estimate instead, with --analytic --device KIND");
}

Result<PipelineRun> measure_pipeline(const Model&, int,
                                     const ProfilerOptions&) {
  return no_training();
}

Result<void> find_devices(const std::vector<std::string>&, int) {
  return no_training();
}

Result<InProcessChannelCosts> measure_channel() { return no_training(); }

Result<void> check_model(const Model&, const Plan&) { return no_training(); }
Result<std::string> hash_of_weights(const Model&) { return no_training(); }

Result<LearningRate> learning_rate(const std::string&, double, std::int64_t) {
  return no_training();
}

Result<void> find_saved(const std::filesystem::path&) { return no_training(); }

Result<TrainReport> run_training(const Model&, const TrainRequest&,
                                 const TrainHooks&) {
  return no_training();
}

Result<std::unique_ptr<Launch>> start_launch(const LaunchRequest&) {
  return no_training();
}

Result<Outcome> follow_run(const Model&, const TrainRequest&) {
  return no_training();
}

Result<std::int64_t> injected_step(const std::string&, const Program&) {
  return no_training();
}

}  // namespace pipewright::cli
