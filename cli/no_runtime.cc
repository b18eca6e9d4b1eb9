// The answers of a build without LibTorch; see runtime_link.h.

#include "cli/runtime_link.h"

namespace pipewright::cli {

Result<Profile> measure_profile(const Model&, std::span<const int>,
                                std::function<void(double share)>) {
  return bad_configuration(
      "measuring needs the build with LibTorch, and this one is without",
      "estimate instead, with --analytic --device KIND");
}

}  // namespace pipewright::cli
