#include "pipewright/runtime/devices/cuda/green_contexts.h"

#include <c10/cuda/CUDAException.h>

#include <optional>
#include <string>

#include "pipewright/runtime/devices/cuda/cuda_driver.h"

namespace pipewright {
namespace {

Error driver_error(const std::string& what) {
  return bad_configuration(
      "this GPU cannot be divided: " + what,
      "use whole GPUs (cuda) or streams of one (cuda-stream)");
}

// Calls functions of the driver by their names, until one fails.
class Driver {
 public:
  template <class Function, class... Arguments>
  void call(const char* name, Arguments... arguments) {
    if (error_) return;
    auto* function = driver_function<Function>(name);
    if (!function) {
      error_ = driver_error(std::string("the driver has no ") + name);
      return;
    }
    const CUresult result = function(arguments...);
    if (result != CUDA_SUCCESS)
      error_ =
          driver_error(std::string(name) + ": " + driver_error_text(result));
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  std::optional<Error> error_;
};

GreenStream stream_on(CUdevice device, CUdevResource part, Driver& driver) {
  CUdevResourceDesc description = nullptr;
  CUgreenCtx context = nullptr;
  CUstream stream = nullptr;
  driver.call<decltype(cuDevResourceGenerateDesc)>("cuDevResourceGenerateDesc",
                                                   &description, &part, 1U);
  driver.call<decltype(cuGreenCtxCreate)>(
      "cuGreenCtxCreate", &context, description, device,
      static_cast<unsigned>(CU_GREEN_CTX_DEFAULT_STREAM));
  driver.call<decltype(cuGreenCtxStreamCreate)>(
      "cuGreenCtxStreamCreate", &stream, context,
      static_cast<unsigned>(CU_STREAM_NON_BLOCKING), 0);
  return {stream, static_cast<int>(part.sm.smCount)};
}

}  // namespace

int sms_of_share(int num_sms, int shares, int major_capability) {
  const int unit = major_capability >= 9 ? 8 : 2;
  return num_sms / shares / unit * unit;
}

Result<std::vector<GreenStream>> green_streams(int gpu, int shares) {
  cudaDeviceProp properties{};
  C10_CUDA_CHECK(cudaSetDevice(gpu));
  C10_CUDA_CHECK(cudaFree(nullptr));  // makes the GPU's primary context
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, gpu));
  const int wanted =
      sms_of_share(properties.multiProcessorCount, shares, properties.major);
  if (wanted < 1)
    return driver_error(std::to_string(properties.multiProcessorCount) +
                        " SMs are too few for " + std::to_string(shares) +
                        " shares");
  CUdevice device = 0;
  CUdevResource all{}, rest{};
  auto count = static_cast<unsigned>(shares);
  std::vector<CUdevResource> parts(count);
  Driver driver;
  driver.call<decltype(cuDeviceGet)>("cuDeviceGet", &device, gpu);
  driver.call<decltype(cuDeviceGetDevResource)>(
      "cuDeviceGetDevResource", device, &all, CU_DEV_RESOURCE_TYPE_SM);
  driver.call<decltype(cuDevSmResourceSplitByCount)>(
      "cuDevSmResourceSplitByCount", parts.data(), &count, &all, &rest, 0U,
      static_cast<unsigned>(wanted));
  if (!driver.error() && count < static_cast<unsigned>(shares))
    return driver_error("the driver makes " + std::to_string(count) +
                        " shares of " + std::to_string(wanted) + " SMs, not " +
                        std::to_string(shares));
  std::vector<GreenStream> streams;
  for (const CUdevResource& part : parts)
    streams.push_back(stream_on(device, part, driver));
  if (driver.error()) return *driver.error();
  return streams;
}

}  // namespace pipewright
