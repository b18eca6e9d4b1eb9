// The GPUs of this machine as device kinds, as their driver describes them:
//
//   cuda           a GPU
//   cuda/4         a quarter of a GPU: of its SMs and of its memory
//   cuda-stream    a GPU that several workers share as streams
//
// The driver is asked by name (libcuda.so.1), so that planning needs neither
// CUDA nor LibTorch. The runtime's own view is runtime/devices/.

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "pipewright/cluster/cluster.h"

namespace pipewright {

// The N of "cuda/N"; 1 for "cuda" and "cuda-stream"; 0 for what is not the name
// of a GPU's kind.
int gpu_share(std::string_view name);

struct GpuKind {
  DeviceKind kind;
  std::string default_link;  // between two of them on one host
};

// One of `num_devices` of the kind. Peak in float32 is two operations per lane
// and cycle, in bfloat16 bfloat16_operations() per SM and cycle; achievable is
// 0.8 and 0.5 of it, as for other NVIDIA devices (presets_text.cc). Two shares
// of a GPU, or two streams, are linked by its memory; each has its part of it.
// Base memory is the CUDA context's, shared in the same way, and a worker's
// workspaces of cuBLAS and cuBLASLt. Fails with BadConfiguration if there is no
// GPU.
Result<GpuKind> this_machine_gpu(std::string_view name, int num_devices = 1);

// Dense bfloat16 operations (a multiplication is one, an addition another) of
// an SM of that compute capability in a cycle, summed in float32; nothing where
// it has no such units or they are not known.
std::optional<double> bfloat16_operations(int major, int minor);

// The base memory of a worker that has one of `parts` of a GPU whose compute
// capability begins with `major`.
Bytes gpu_base_memory(int major, int parts);

}  // namespace pipewright
