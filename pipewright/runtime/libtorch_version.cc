#include "pipewright/runtime/libtorch_version.h"

#include <torch/version.h>

namespace pipewright {

std::string libtorch_version() { return TORCH_VERSION; }

}  // namespace pipewright
