// The devices of this machine that workers can compute on, by the names of
// their kinds:
//
//   cpu            a core of this machine, as a thread
//   cuda           a GPU, one per worker
//   cuda/4         a quarter of a GPU: a share of its SMs (a green context).
//                  Four workers fill a GPU, the fifth begins the next one
//   cuda-stream    a stream of the first GPU: its workers share all SMs
//
// Workers of one plan are on cores and on one of the other kinds. No LibTorch
// type is seen here.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/runtime/devices/gpu_report.h"

namespace pipewright {

class WorkerDevice;

// Fails with BadConfiguration, naming the first worker, unless this machine has
// a device of that kind for each worker.
Result<void> find_devices(const std::vector<std::string>& kinds);

// A device of that kind for each worker. Fails as find_devices() does.
Result<std::vector<std::unique_ptr<WorkerDevice>>> open_devices(
    const std::vector<std::string>& kinds);

GpuReport gpu_report();

}  // namespace pipewright
