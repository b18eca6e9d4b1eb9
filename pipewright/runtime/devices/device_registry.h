// The devices of this machine that workers can compute on, by the names of
// their kinds:
//
//   cpu            a core of this machine, as a thread
//   cuda           a GPU, one per worker
//   cuda/4         a quarter of a GPU: a share of its SMs (a green context).
//                  Four workers fill a GPU, the fifth begins the next one
//   cuda-stream    a stream of the first GPU: its workers share all SMs
//
// Workers that see the same GPUs are on cores and on one of the other kinds. No
// LibTorch type is seen here.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/runtime/devices/gpu_report.h"

namespace pipewright {

class WorkerDevice;

// Fails with BadConfiguration, naming the first worker, unless this machine has
// a device of that kind for each worker. `first_gpu`: as many workers on GPUs
// come before these, in other processes that see the same GPUs.
Result<void> find_devices(const std::vector<std::string>& kinds,
                          int first_gpu = 0);

// A device of that kind for each worker. Fails as find_devices() does.
Result<std::vector<std::unique_ptr<WorkerDevice>>> open_devices(
    const std::vector<std::string>& kinds, int first_gpu = 0);

// Which kernels GPUs are given. By default those that give the same bits every
// time, in full float32.
struct KernelChoice {
  bool tf32 = false;     // float32 products by units of 10 bits of mantissa
  bool is_fast = false;  // the fastest, even if their bits change between runs
  bool is_fused = true;  // ours in place of several of LibTorch's

  // "TF32 products"; empty: the default. Also says why kernels of ours are
  // asked for and not there, and that a variable of cuBLAS is ignored.
  std::string to_text() const;
  bool operator==(const KernelChoice&) const = default;
};
// For devices that are opened from now on.
void choose_kernels(const KernelChoice& choice);

GpuReport gpu_report();

// Of the first GPU, by this process and all others; 0 where there is none.
Bytes gpu_memory_in_use();

}  // namespace pipewright
