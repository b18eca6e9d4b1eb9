// Which streams workers get, and what is known about the GPUs; see cuda.h.

#include <ATen/Context.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <utility>

#include "pipewright/base/check.h"
#include "pipewright/runtime/devices/cuda/cuda.h"
#include "pipewright/runtime/devices/cuda/cuda_device.h"
#include "pipewright/runtime/devices/cuda/cuda_fused_kernels.h"
#include "pipewright/runtime/devices/cuda/gpu_name.h"
#include "pipewright/runtime/devices/cuda/green_contexts.h"
#include "pipewright/runtime/devices/cuda/ipc_link.h"
#include "pipewright/runtime/devices/cuda/nccl_link.h"
#include "pipewright/runtime/fused_kernels.h"

// Of LibTorch: its header needs those of cuBLAS, which may be missing.
namespace at::cuda {
void clearCublasWorkspaces();
}  // namespace at::cuda

namespace pipewright {
namespace {

using Streams = std::vector<c10::cuda::CUDAStream>;

// LibTorch has that many for each GPU: its next ones are the same again. More
// are made here.
constexpr int kPooledStreams = 32;
constexpr int kMaxStreams = 1024;

struct CudaKernels {
  std::atomic<bool> tf32 = false, is_fast = false, is_fused = true;
};
CudaKernels& chosen_kernels() {
  static CudaKernels kernels;
  return kernels;
}

// Unless others were asked for: kernels whose bits do not change from run to
// run, in full float32.
void set_kernels() {
  const bool is_fast = chosen_kernels().is_fast, tf32 = chosen_kernels().tf32;
  at::globalContext().setDeterministicAlgorithms(!is_fast, /*warn_only=*/false);
  at::globalContext().setDeterministicFillUninitializedMemory(false);
  at::globalContext().setDeterministicCuDNN(!is_fast);
  at::globalContext().setBenchmarkCuDNN(false);
  at::globalContext().setAllowTF32CuDNN(tf32);
  at::globalContext().setAllowTF32CuBLAS(tf32);
  if (!chosen_kernels().is_fused) return use_fused_kernels(nullptr);
  const Result<const FusedKernels*> fused = cuda_fused_kernels();
  use_fused_kernels(fused ? *fused : nullptr);
}

constexpr const char* kWorkspaceConfig = "CUBLAS_WORKSPACE_CONFIG";
std::atomic<bool> workspace_config_is_ignored = false;

// Scripts for PyTorch set it for equal bits, which do not depend on it here.
// LibTorch parses it anew in each call of cuBLAS, which takes hundreds of
// microseconds, and base memory counts workspaces of the default size.
void ignore_workspace_config() {
  if (!std::getenv(kWorkspaceConfig)) return;
  ::unsetenv(kWorkspaceConfig);
  workspace_config_is_ignored = true;
}

std::string version_text(int number) {
  return std::to_string(number / 1000) + "." +
         std::to_string(number % 1000 / 10);
}

// "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  ..."
std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string word;
  while (file >> word)
    if (word.find_first_not_of("0123456789.") == std::string::npos) return word;
  return {};
}

std::string why_no_gpu() {
  int count = 0;
  const cudaError_t state = cudaGetDeviceCount(&count);
  static_cast<void>(cudaGetLastError());  // LibTorch must not find it
  if (state != cudaSuccess) return cudaGetErrorString(state);
  return count == 0 ? "no GPU" : "";
}

// Empty: this process may use it.
std::string why_not_open(int gpu) {
  c10::DeviceIndex before = 0;
  static_cast<void>(c10::cuda::GetDevice(&before));
  cudaError_t state = c10::cuda::SetDevice(static_cast<c10::DeviceIndex>(gpu));
  if (state == cudaSuccess) state = cudaFree(nullptr);  // makes its context
  static_cast<void>(cudaGetLastError());
  // Not by cudaSetDevice(), which makes a context there, too: each rank would
  // have one on the first GPU.
  static_cast<void>(c10::cuda::MaybeSetDevice(before));
  return state == cudaSuccess ? "" : cudaGetErrorString(state);
}

Streams pooled_streams(int gpu, int count) {
  Streams streams;
  for (int i = 0; i < count; ++i)
    streams.push_back(c10::cuda::getStreamFromPool(
        false, static_cast<c10::DeviceIndex>(gpu)));
  return streams;
}

c10::cuda::CUDAStream own_stream(int gpu) {
  const auto index = static_cast<c10::DeviceIndex>(gpu);
  const c10::cuda::CUDAGuard guard(index);
  cudaStream_t stream = nullptr;
  C10_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return c10::cuda::getStreamFromExternal(stream, index);
}

Result<Streams> shares_of(int gpu, int shares) {
  PIPEWRIGHT_TRY(const std::vector<GreenStream> green,
                 green_streams(gpu, shares));
  Streams streams;
  for (const GreenStream& share : green)
    streams.push_back(c10::cuda::getStreamFromExternal(
        share.stream, static_cast<c10::DeviceIndex>(gpu)));
  return streams;
}

// Streams live as long as the process: the next executor gets the same ones,
// and with them the memory that the allocator keeps for each. `count`: of plain
// streams, at least.
Result<Streams> streams_of(const CudaKind& kind, int gpu, int count) {
  static std::mutex mutex;
  static std::map<std::pair<int, int>, Streams> known;
  const std::lock_guard lock(mutex);
  Streams& streams = known[{gpu, kind.is_stream ? 0 : kind.share}];
  if (streams.empty() && (kind.is_stream || kind.share == 1))
    streams = pooled_streams(gpu, kind.is_stream ? kPooledStreams : 1);
  if (streams.empty()) {
    PIPEWRIGHT_TRY(streams, shares_of(gpu, kind.share));
  }
  while (kind.is_stream && std::ssize(streams) < count)
    streams.push_back(own_stream(gpu));
  return streams;
}

std::vector<int> peers_of(int gpu) {
  std::vector<int> peers;
  for (int other = 0; other < c10::cuda::device_count(); ++other) {
    int reaches = 0;
    if (other == gpu) continue;
    C10_CUDA_CHECK(cudaDeviceCanAccessPeer(&reaches, gpu, other));
    if (reaches) peers.push_back(other);
  }
  return peers;
}

}  // namespace

void choose_cuda_kernels(bool tf32, bool is_fast, bool is_fused) {
  chosen_kernels().tf32 = tf32;
  chosen_kernels().is_fast = is_fast;
  chosen_kernels().is_fused = is_fused;
}

std::string why_no_fused_kernels() {
  if (CudaDevice::count() == 0) return {};
  const Result<const FusedKernels*> fused = cuda_fused_kernels();
  return fused ? "" : fused.error().message;
}

bool is_workspace_config_ignored() { return workspace_config_is_ignored; }

GpuReport cuda_report() {
  GpuReport report;
  int version = 0;
  if (cudaRuntimeGetVersion(&version) == cudaSuccess)
    report.runtime = "CUDA " + version_text(version);
  report.nccl = nccl_version_text();
  report.driver = driver_version();
  report.why_none = why_no_gpu();
  if (!report.why_none.empty()) return report;
  for (int i = 0; i < c10::cuda::device_count(); ++i) {
    cudaDeviceProp properties{};
    C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, i));
    report.gpus.push_back(
        {properties.name,
         Bytes(static_cast<std::int64_t>(properties.totalGlobalMem)),
         properties.multiProcessorCount,
         std::to_string(properties.major) + "." +
             std::to_string(properties.minor),
         gpu_name(i), peers_of(i)});
  }
  return report;
}

Bytes cuda_memory_in_use() {
  if (!why_no_gpu().empty()) return Bytes(0);
  const c10::cuda::CUDAGuard guard(0);
  std::size_t left = 0, all = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&left, &all));
  return Bytes(static_cast<std::int64_t>(all - left));
}

Result<std::vector<std::unique_ptr<WorkerDevice>>> open_cuda_devices(
    const std::string& name, const CudaKind& kind, int first, int count) {
  const std::string why_none = why_no_gpu();
  if (!why_none.empty())
    return bad_configuration("a device of kind " + name +
                             " is not here: " + why_none);
  const int gpus = kind.is_stream ? 1 : c10::cuda::device_count();
  const int per_gpu = kind.is_stream ? kMaxStreams : kind.share;
  if (first + count > gpus * per_gpu)
    return bad_configuration(
        std::to_string(first + count) + " workers on " + name +
            ", and there are " + std::to_string(gpus * per_gpu),
        "plan for fewer workers, or for shares of a GPU (cuda/N)");
  for (int gpu = first / per_gpu; gpu * per_gpu < first + count; ++gpu)
    if (const std::string why = why_not_open(gpu); !why.empty())
      return bad_configuration(
          "GPU " + std::to_string(gpu) + " cannot be used: " + why,
          "nvidia-smi shows what uses it; under MPS, after a process was "
          "killed, start once more");
  // Before streams count their memory: the allocators are made by it.
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  set_kernels();
  ignore_workspace_config();
  use_link_kinds(c10::DeviceType::CUDA, {ipc_links(), nccl_links()});
  // Each thread's cuBLAS has its own for each stream: those of threads that
  // have ended. Graphs may use them as long as a device is in use.
  if (CudaDevice::count() == 0) at::cuda::clearCublasWorkspaces();
  std::vector<std::unique_ptr<WorkerDevice>> devices;
  for (int i = first; i < first + count; ++i) {
    PIPEWRIGHT_TRY(const Streams streams,
                   streams_of(kind, i / per_gpu, i % per_gpu + 1));
    devices.push_back(std::make_unique<CudaDevice>(
        name, streams[static_cast<std::size_t>(i % per_gpu)]));
  }
  return devices;
}

}  // namespace pipewright
