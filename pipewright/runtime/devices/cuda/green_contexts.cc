#include "pipewright/runtime/devices/cuda/green_contexts.h"

#include <c10/cuda/CUDAException.h>

#include <map>
#include <mutex>
#include <optional>
#include <span>
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

using Resources = std::vector<CUdevResource>;

// Runs on all SMs of these resources, which one split has made.
GreenStream stream_on(CUdevice device, std::span<CUdevResource> parts,
                      Driver& driver) {
  CUdevResourceDesc description = nullptr;
  CUgreenCtx context = nullptr;
  CUstream stream = nullptr;
  driver.call<decltype(cuDevResourceGenerateDesc)>(
      "cuDevResourceGenerateDesc", &description, parts.data(),
      static_cast<unsigned>(parts.size()));
  driver.call<decltype(cuGreenCtxCreate)>(
      "cuGreenCtxCreate", &context, description, device,
      static_cast<unsigned>(CU_GREEN_CTX_DEFAULT_STREAM));
  driver.call<decltype(cuGreenCtxStreamCreate)>(
      "cuGreenCtxStreamCreate", &stream, context,
      static_cast<unsigned>(CU_STREAM_NON_BLOCKING), 0);
  int sms = 0;
  for (const CUdevResource& part : parts)
    sms += static_cast<int>(part.sm.smCount);
  return {stream, sms};
}

// Disjoint groups of at least `sms` SMs each, `count` or fewer. Those of
// another call may overlap with them.
Resources split(CUdevice device, int count, int sms, Driver& driver) {
  CUdevResource all{}, rest{};
  auto made = static_cast<unsigned>(count);
  Resources parts(made);
  driver.call<decltype(cuDeviceGetDevResource)>(
      "cuDeviceGetDevResource", device, &all, CU_DEV_RESOURCE_TYPE_SM);
  driver.call<decltype(cuDevSmResourceSplitByCount)>(
      "cuDevSmResourceSplitByCount", parts.data(), &made, &all, &rest, 0U,
      static_cast<unsigned>(sms));
  parts.resize(driver.error() ? 0 : made);
  return parts;
}

// The GPU in quarters, divided once: a half is two of them, so that it does not
// overlap with the other quarters.
const Resources& quarters(int gpu, CUdevice device, int sms) {
  static std::mutex mutex;
  static std::map<int, Resources> known;
  const std::lock_guard lock(mutex);
  const auto [place, is_new] = known.try_emplace(gpu);
  Driver driver;
  if (is_new) place->second = split(device, 4, sms, driver);
  return place->second;
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
  Driver driver;
  driver.call<decltype(cuDeviceGet)>("cuDeviceGet", &device, gpu);
  const int quarter =
      sms_of_share(properties.multiProcessorCount, 4, properties.major);
  Resources parts;
  std::size_t per_share = 1;
  if (quarter > 0 && (wanted == quarter || wanted == 2 * quarter)) {
    parts = quarters(gpu, device, quarter);
    per_share = static_cast<std::size_t>(wanted / quarter);
  }
  if (parts.size() < per_share * static_cast<std::size_t>(shares)) {
    parts = split(device, shares, wanted, driver);
    per_share = 1;
  }
  if (!driver.error() && parts.size() < static_cast<std::size_t>(shares))
    return driver_error("the driver makes " + std::to_string(parts.size()) +
                        " shares of " + std::to_string(wanted) + " SMs, not " +
                        std::to_string(shares));
  std::vector<GreenStream> streams;
  for (std::size_t i = 0; !driver.error() && i < std::size_t(shares); ++i)
    streams.push_back(stream_on(
        device, std::span(parts).subspan(i * per_share, per_share), driver));
  if (driver.error()) return *driver.error();
  return streams;
}

}  // namespace pipewright
