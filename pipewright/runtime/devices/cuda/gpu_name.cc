#include "pipewright/runtime/devices/cuda/gpu_name.h"

#include <c10/cuda/CUDAException.h>
#include <cuda_runtime_api.h>

#include <fstream>
#include <iomanip>
#include <sstream>

namespace pipewright {

std::string gpu_name(int gpu) {
  cudaDeviceProp properties{};
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, gpu));
  std::ostringstream text;
  for (const char byte : properties.uuid.bytes)
    text << std::hex << std::setw(2) << std::setfill('0')
         << static_cast<int>(static_cast<unsigned char>(byte));
  return text.str();
}

HostGpu HostGpu::at(int gpu) {
  HostGpu result;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> result.host;
  result.gpu = gpu_name(gpu);
  return result;
}

HostGpu HostGpu::parse(const std::string& text) {
  HostGpu result;
  std::istringstream(text) >> result.host >> result.gpu;
  return result;
}

}  // namespace pipewright
