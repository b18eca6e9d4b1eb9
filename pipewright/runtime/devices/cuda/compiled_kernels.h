// CUDA C++ compiled while the program runs, by the NVRTC of torch's package: no
// CUDA toolkit is needed.

#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <string>

#include "pipewright/base/result.h"

namespace pipewright {

// The kernels of one source, on every GPU of one compute capability. Lives as
// long as the process.
class CompiledKernels {
 public:
  // Fails with BadConfiguration, and the compiler's first words.
  static Result<std::unique_ptr<CompiledKernels>> compile(
      const std::string& source, int capability);  // 90: 9.0

  // `arguments` are pointers to what the kernel takes. Throws if there is no
  // kernel of that name or it cannot be launched.
  void launch(const std::string& name, dim3 blocks, dim3 threads,
              void** arguments, cudaStream_t stream) const;

 private:
  CompiledKernels() = default;

  std::map<std::string, CUfunction> kernels_;
};

}  // namespace pipewright
