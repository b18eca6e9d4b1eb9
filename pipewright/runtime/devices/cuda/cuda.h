// GPUs by CUDA: what the registry of devices asks of this folder, which nobody
// else includes. A build without CUDA answers from no_cuda.cc.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/runtime/devices/gpu_report.h"
#include "pipewright/runtime/devices/worker_device.h"

namespace pipewright {

// How workers divide GPUs: a share of 4 is a quarter of one.
struct CudaKind {
  int share = 1;
  bool is_stream = false;  // all workers on the first GPU, with all SMs
};

// For devices that are opened from now on: products in TF32, kernels whose bits
// may change from run to run (by default neither), and kernels of our own
// (by default).
void choose_cuda_kernels(bool tf32, bool is_fast, bool is_fused);

// Why GPUs have no kernels of our own; empty if they have, or were never asked.
std::string why_no_fused_kernels();

// Whether this process was started with workspaces of cuBLAS of another size,
// which devices do not take; see cuda_devices.cc.
bool is_workspace_config_ignored();

GpuReport cuda_report();

// Of the first GPU; 0 where there is none.
Bytes cuda_memory_in_use();

// `count` devices of a kind, from that number on. Fails with BadConfiguration
// if there are too few.
Result<std::vector<std::unique_ptr<WorkerDevice>>> open_cuda_devices(
    const std::string& name, const CudaKind& kind, int first, int count);

}  // namespace pipewright
