// The fused kernels of GPUs, compiled at their first use.

#pragma once

#include "pipewright/base/result.h"

namespace pipewright {

class FusedKernels;

// Compiles them once per process. Fails with BadConfiguration where that cannot
// be done, the same way each time.
Result<const FusedKernels*> cuda_fused_kernels();

}  // namespace pipewright
