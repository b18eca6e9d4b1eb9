// Sends and receives of NCCL; see nccl_link.h.

#include "pipewright/runtime/devices/cuda/nccl_link.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <stdexcept>

#include "pipewright/runtime/devices/cuda/cuda_events.h"
#include "pipewright/runtime/devices/cuda/gpu_name.h"
#include "pipewright/runtime/devices/worker_device.h"

namespace pipewright {
namespace {

// From this version on several ranks may share a GPU, where they ask for it.
constexpr int kSharesGpus = 23000;

// NCCL's functions by their names, as its manual has them: LibTorch comes with
// the library, and its headers may be missing.
using NcclComm = void*;
struct NcclId {
  char bytes[128];
};
constexpr int kNcclBytes = 1;  // the type of what is sent
struct NcclFunctions {
  int (*ncclGetUniqueId)(NcclId*) = nullptr;
  int (*ncclCommInitRank)(NcclComm*, int, NcclId, int) = nullptr;
  int (*ncclCommAbort)(NcclComm) = nullptr;
  int (*ncclGroupStart)() = nullptr;
  int (*ncclGroupEnd)() = nullptr;
  int (*ncclSend)(const void*, std::size_t, int, int, NcclComm,
                  cudaStream_t) = nullptr;
  int (*ncclRecv)(void*, std::size_t, int, int, NcclComm,
                  cudaStream_t) = nullptr;
  const char* (*ncclGetErrorString)(int) = nullptr;
  const char* (*ncclGetLastError)(NcclComm) = nullptr;
  int (*ncclGetVersion)(int*) = nullptr;
  bool are_there = true;  // all of them

  template <class Function>
  void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
    are_there = are_there && function;
  }
};

const NcclFunctions& nccl() {
  static const NcclFunctions functions = [] {
    NcclFunctions f;
    f.find(f.ncclGetUniqueId, "ncclGetUniqueId");
    f.find(f.ncclCommInitRank, "ncclCommInitRank");
    f.find(f.ncclCommAbort, "ncclCommAbort");
    f.find(f.ncclGroupStart, "ncclGroupStart");
    f.find(f.ncclGroupEnd, "ncclGroupEnd");
    f.find(f.ncclSend, "ncclSend");
    f.find(f.ncclRecv, "ncclRecv");
    f.find(f.ncclGetErrorString, "ncclGetErrorString");
    f.find(f.ncclGetLastError, "ncclGetLastError");
    f.find(f.ncclGetVersion, "ncclGetVersion");
    return f;
  }();
  return functions;
}

// The last error says what a call met, such as that memory ran out.
void check_nccl(int result) {
  if (result != 0)
    throw std::runtime_error(std::string("NCCL: ") +
                             nccl().ncclGetErrorString(result) + ": " +
                             nccl().ncclGetLastError(nullptr));
}

// A stream of its own on the current GPU.
class OwnStream {
 public:
  OwnStream() {
    int lowest = 0, highest = 0;
    C10_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
    C10_CUDA_CHECK(
        cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, highest));
  }
  ~OwnStream() { static_cast<void>(cudaStreamDestroy(stream_)); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

  c10::cuda::CUDAStream at(c10::DeviceIndex gpu) const {
    return c10::cuda::getStreamFromExternal(stream_, gpu);
  }

 private:
  cudaStream_t stream_ = nullptr;
};

// Of two processes. Aborted rather than destroyed: the other end may not be
// there any more.
class Communicator {
 public:
  Communicator(const NcclId& id, int rank) {
    check_nccl(nccl().ncclCommInitRank(&comm_, 2, id, rank));
  }
  ~Communicator() { nccl().ncclCommAbort(comm_); }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  operator NcclComm() const { return comm_; }

 private:
  NcclComm comm_ = nullptr;
};

class NcclLink final : public DirectLink {
 public:
  // The first exchange, which connects both ends, may wait for the other.
  NcclLink(at::Device place, std::unique_ptr<OwnStream> stream,
           const NcclId& id, bool is_sender)
      : gpu_(place.index()),
        own_stream_(std::move(stream)),
        stream_(own_stream_->at(gpu_)),
        events_(false),
        comm_(id, is_sender ? kSender : kReceiver) {
    Tensors first;
    first.push_back(at::zeros({1}, at::device(place)));
    is_sender ? send(first) : receive(first);
    stream_.synchronize();
    under_way_.clear();
  }

  void send(const Tensors& tensors) override {
    const c10::cuda::CUDAGuard guard(gpu_);
    order(current(), stream_);
    check_nccl(nccl().ncclGroupStart());
    for (const at::Tensor& tensor : tensors)
      check_nccl(nccl().ncclSend(tensor.const_data_ptr(), tensor.nbytes(),
                                 kNcclBytes, kReceiver, comm_,
                                 stream_.stream()));
    check_nccl(nccl().ncclGroupEnd());
    under_way_.push_back(recorded(stream_));
  }

  std::int64_t num_received() override {
    while (!under_way_.empty() && has_passed(under_way_.front())) {
      under_way_.pop_front();
      ++num_received_;
    }
    return num_received_;
  }

  bool lets_write() override {
    if (under_way_.empty()) return true;
    wait_for_other_process([&] {
      C10_CUDA_CHECK(
          cudaStreamWaitEvent(current().stream(), under_way_.back().get(), 0));
    });
    return true;
  }

  void receive(const Tensors& tensors) override {
    if (tensors.empty()) return;
    const c10::cuda::CUDAGuard guard(gpu_);
    order(current(), stream_);  // the memory may have been in use there
    check_nccl(nccl().ncclGroupStart());
    for (const at::Tensor& tensor : tensors)
      check_nccl(nccl().ncclRecv(tensor.data_ptr(), tensor.nbytes(), kNcclBytes,
                                 kSender, comm_, stream_.stream()));
    check_nccl(nccl().ncclGroupEnd());
    wait_for_other_process([&] { order(stream_, current()); });
  }

 private:
  static constexpr int kSender = 0, kReceiver = 1;

  c10::cuda::CUDAStream current() const {
    return c10::cuda::getCurrentCUDAStream(gpu_);
  }
  CudaEvent recorded(const c10::cuda::CUDAStream& stream) {
    CudaEvent event = events_.made();
    C10_CUDA_CHECK(cudaEventRecord(event.get(), stream.stream()));
    return event;
  }
  void order(const c10::cuda::CUDAStream& first,
             const c10::cuda::CUDAStream& second) {
    const CudaEvent event = recorded(first);
    C10_CUDA_CHECK(cudaStreamWaitEvent(second.stream(), event.get(), 0));
  }

  const c10::DeviceIndex gpu_;
  const std::unique_ptr<OwnStream> own_stream_;
  const c10::cuda::CUDAStream stream_;
  CudaEvents events_;
  const Communicator comm_;          // it is aborted before its stream ends
  std::deque<CudaEvent> under_way_;  // sends, oldest first
  std::int64_t num_received_ = 0;
};

class NcclLinks final : public LinkKind {
 public:
  std::string name() const override { return "NCCL"; }
  std::string end_at(at::Device place) override {
    HostGpu end = HostGpu::at(place.index());
    if (const char* name = std::getenv("NCCL_HOSTID")) end.host = name;
    return end.to_text() + " " + std::to_string(nccl_version());
  }
  std::string why_not(const std::string& sender,
                      const std::string& receiver) override {
    const int version = std::min(version_in(sender), version_in(receiver));
    if (version == 0) return "NCCL is not loaded";
    const bool is_shared =
        HostGpu::parse(sender).to_text() == HostGpu::parse(receiver).to_text();
    if (is_shared && version < kSharesGpus)
      return "NCCL before 2.30 refuses two ranks on one GPU";
    return {};
  }
  std::string invitation(at::Device) override {
    ask_to_share_gpus();
    NcclId id;
    check_nccl(nccl().ncclGetUniqueId(&id));
    return std::string(id.bytes, sizeof(id.bytes));
  }
  void prepare(at::Device place, bool) override {
    ask_to_share_gpus();
    const c10::cuda::CUDAGuard guard(place.index());
    stream_ = std::make_unique<OwnStream>();
  }
  std::unique_ptr<DirectLink> open(at::Device place,
                                   const std::string& invitation,
                                   bool is_sender) override {
    const c10::cuda::CUDAGuard guard(place.index());
    NcclId id{};
    std::memcpy(id.bytes, invitation.data(),
                std::min(sizeof(id.bytes), invitation.size()));
    return std::make_unique<NcclLink>(place, std::move(stream_), id, is_sender);
  }

 private:
  static int version_in(const std::string& end) {
    return std::atoi(end.substr(end.rfind(' ') + 1).c_str());
  }
  // NCCL reads it once.
  static void ask_to_share_gpus() {
    ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", /*overwrite=*/0);
  }

  std::unique_ptr<OwnStream> stream_;  // prepared, and not opened yet
};

}  // namespace

std::shared_ptr<LinkKind> nccl_links() { return std::make_shared<NcclLinks>(); }

int nccl_version() {
  int number = 0;
  return nccl().are_there && nccl().ncclGetVersion(&number) == 0 ? number : 0;
}

std::string nccl_version_text() {
  const int number = nccl_version();
  if (number == 0) return {};
  return std::to_string(number / 10000) + "." +
         std::to_string(number / 100 % 100) + "." +
         std::to_string(number % 100);
}

}  // namespace pipewright
