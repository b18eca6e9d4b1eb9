// The GPUs of this machine, as `pipewright env` shows them.

#pragma once

#include <string>
#include <vector>

#include "pipewright/base/units.h"

namespace pipewright {

struct Gpu {
  std::string name;  // "NVIDIA H200"
  Bytes memory;
  int num_sms = 0;
  std::string capability;  // "9.0"
  std::string id;          // of this one GPU, as the driver knows it
  std::vector<int> peers;  // GPUs whose memory it reaches directly
};

// What this program and this machine have for GPUs.
struct GpuReport {
  std::vector<Gpu> gpus;
  std::string why_none;  // where there are none
  std::string driver;    // as the driver names its version; may be empty
  std::string runtime;   // "CUDA 13.0"; empty without CUDA
  std::string nccl;      // "2.28.9"; empty if there is none
};

}  // namespace pipewright
