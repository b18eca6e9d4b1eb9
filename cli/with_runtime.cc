// The runtime's answers; see runtime_link.h.

#include "cli/runtime_link.h"
#include "pipewright/runtime/profiler.h"

namespace pipewright::cli {

Result<Profile> measure_profile(const Model& model,
                                std::span<const int> microbatches,
                                std::function<void(double share)> progress) {
  ProfilerOptions options;
  options.progress = std::move(progress);
  return measured_profile(model, microbatches, options);
}

}  // namespace pipewright::cli
