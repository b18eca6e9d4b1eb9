// The answers of a build without CUDA; see cuda/cuda.h.

#include "pipewright/runtime/devices/cuda/cuda.h"

namespace pipewright {

void choose_cuda_kernels(bool, bool, bool) {}

std::string why_no_fused_kernels() { return {}; }

bool is_workspace_config_ignored() { return false; }

GpuReport cuda_report() {
  GpuReport report;
  report.why_none = "this build's LibTorch is without CUDA";
  return report;
}

Bytes cuda_memory_in_use() { return Bytes(0); }

Result<std::vector<std::unique_ptr<WorkerDevice>>> open_cuda_devices(
    const std::string& name, const CudaKind&, int, int) {
  return bad_configuration(
      "a device of kind " + name + " is not here: " + cuda_report().why_none,
      "build with a LibTorch for CUDA, docs/gpu.md");
}

}  // namespace pipewright
