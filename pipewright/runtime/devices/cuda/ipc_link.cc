// Memory and events that two processes share; see ipc_link.h.
//
// A message is copied into a slot of the sender's memory. Which slot it is, and
// how the other process gets at the slot, is in a page of the host's memory
// that both have. Nobody waits there: the receiver looks when it knows that the
// message has been sent, and counts what it has given its GPU to copy. A slot
// that was counted is used again, after the receiver's event.

#include "pipewright/runtime/devices/cuda/ipc_link.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <random>
#include <stdexcept>

#include "pipewright/runtime/devices/cuda/gpu_name.h"
#include "pipewright/runtime/devices/worker_device.h"

namespace pipewright {
namespace {

constexpr std::int64_t kMaxSlots = 1024;
constexpr std::size_t kAlignment = 256;
// The driver gives memory out in such pieces, and shares whole ones.
constexpr std::size_t kGranularity = std::size_t{2} << 20;

// In memory of the host that both processes have.
struct IpcPage {
  struct Slot {
    cudaIpcMemHandle_t memory;
    cudaIpcEventHandle_t sent, received;
  };
  std::atomic<std::int64_t> num_received;
  std::int32_t slot_of[kMaxSlots];  // by number of the message, modulo
  Slot slots[kMaxSlots];
};

std::size_t rounded_up(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

// Its name in the host is gone once both processes have it.
class SharedPage {
 public:
  SharedPage(std::string name, bool is_new) : name_(std::move(name)) {
    const int file =
        ::shm_open(name_.c_str(),
                   O_RDWR | O_CLOEXEC | (is_new ? O_CREAT | O_EXCL : 0), 0600);
    if (file < 0) fail();
    const bool is_large = !is_new || ::ftruncate(file, sizeof(IpcPage)) == 0;
    page_ = is_large ? ::mmap(nullptr, sizeof(IpcPage), PROT_READ | PROT_WRITE,
                              MAP_SHARED, file, 0)
                     : MAP_FAILED;
    const int error = errno;
    ::close(file);
    if (!is_new || page_ == MAP_FAILED) ::shm_unlink(name_.c_str());
    errno = error;
    if (page_ == MAP_FAILED) fail();
  }
  ~SharedPage() {
    ::shm_unlink(name_.c_str());  // the other process may not have come
    ::munmap(page_, sizeof(IpcPage));
  }
  SharedPage(const SharedPage&) = delete;
  SharedPage& operator=(const SharedPage&) = delete;

  IpcPage* operator->() const { return static_cast<IpcPage*>(page_); }

 private:
  [[noreturn]] void fail() const {
    throw std::runtime_error("cannot share memory of the host (" + name_ +
                             "): " + std::strerror(errno));
  }

  const std::string name_;
  void* page_ = nullptr;
};

cudaEvent_t shareable_event(cudaIpcEventHandle_t& handle) {
  cudaEvent_t event = nullptr;
  C10_CUDA_CHECK(cudaEventCreateWithFlags(
      &event, cudaEventDisableTiming | cudaEventInterprocess));
  C10_CUDA_CHECK(cudaIpcGetEventHandle(&handle, event));
  return event;
}

cudaEvent_t event_of(const cudaIpcEventHandle_t& handle) {
  cudaEvent_t event = nullptr;
  C10_CUDA_CHECK(cudaIpcOpenEventHandle(&event, handle));
  return event;
}

// Of the other process.
void wait_for_event(cudaStream_t stream, cudaEvent_t event) {
  wait_for_other_process(
      [&] { C10_CUDA_CHECK(cudaStreamWaitEvent(stream, event, 0)); });
}

// What the two ends of a slot have of it.
struct SlotEnd {
  char* memory = nullptr;
  std::size_t size = 0;  // the sender knows
  cudaEvent_t sent = nullptr, received = nullptr;
  std::int64_t message = -1;  // the last in it
};

class IpcSender final : public DirectLink {
 public:
  IpcSender(at::Device place, std::unique_ptr<SharedPage> page)
      : gpu_(place.index()), page_(std::move(page)) {
    add_slot(kGranularity);
  }
  // The other process may still read the slots: they end with this one.
  ~IpcSender() override = default;

  bool copies() const override { return true; }
  void send(const Tensors& tensors) override {
    const c10::cuda::CUDAGuard guard(gpu_);
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(gpu_).stream();
    const std::size_t index = free_slot(size_of(tensors));
    SlotEnd& slot = slots_[index];
    if (slot.message >= 0) {
      if (!slot.received)
        slot.received = event_of((*page_)->slots[index].received);
      wait_for_event(stream, slot.received);
    }
    char* to = slot.memory;
    for (const at::Tensor& tensor : tensors) {
      C10_CUDA_CHECK(cudaMemcpyAsync(to, tensor.const_data_ptr(),
                                     tensor.nbytes(), cudaMemcpyDeviceToDevice,
                                     stream));
      to += rounded_up(tensor.nbytes(), kAlignment);
    }
    C10_CUDA_CHECK(cudaEventRecord(slot.sent, stream));
    slot.message = num_sent_++;
    (*page_)->slot_of[slot.message % kMaxSlots] =
        static_cast<std::int32_t>(index);
  }
  std::int64_t num_received() override { return (*page_)->num_received; }
  bool lets_write() override { return true; }
  void receive(const Tensors&) override {
    throw std::logic_error("the sending end of a link receives");
  }

 private:
  static std::size_t size_of(const Tensors& tensors) {
    std::size_t size = 0;
    for (const at::Tensor& tensor : tensors)
      size += rounded_up(tensor.nbytes(), kAlignment);
    return size;
  }

  // The smallest that is large enough.
  std::size_t free_slot(std::size_t size) {
    const std::int64_t received = num_received();
    std::size_t best = slots_.size();
    for (std::size_t i = 0; i < slots_.size(); ++i)
      if (slots_[i].message < received && slots_[i].size >= size &&
          (best == slots_.size() || slots_[i].size < slots_[best].size))
        best = i;
    if (best == slots_.size()) add_slot(size);
    return best;
  }

  void add_slot(std::size_t size) {
    if (slots_.size() == static_cast<std::size_t>(kMaxSlots))
      throw std::runtime_error("more than " + std::to_string(kMaxSlots) +
                               " messages are under way to one rank");
    const c10::cuda::CUDAGuard guard(gpu_);
    SlotEnd slot;
    slot.size = std::max(rounded_up(size, kGranularity), kGranularity);
    void* memory = nullptr;
    C10_CUDA_CHECK(cudaMalloc(&memory, slot.size));
    slot.memory = static_cast<char*>(memory);
    IpcPage::Slot& shared = (*page_)->slots[slots_.size()];
    C10_CUDA_CHECK(cudaIpcGetMemHandle(&shared.memory, memory));
    slot.sent = shareable_event(shared.sent);
    slots_.push_back(slot);
  }

  const c10::DeviceIndex gpu_;
  const std::unique_ptr<SharedPage> page_;
  std::vector<SlotEnd> slots_;
  std::int64_t num_sent_ = 0;
};

class IpcReceiver final : public DirectLink {
 public:
  // The first slot is there, and shows whether this GPU can read it.
  IpcReceiver(at::Device place, std::unique_ptr<SharedPage> page)
      : gpu_(place.index()), page_(std::move(page)) {
    slot_end(0);
  }
  ~IpcReceiver() override {
    for (const SlotEnd& slot : slots_)
      if (slot.memory) static_cast<void>(cudaIpcCloseMemHandle(slot.memory));
  }

  void send(const Tensors&) override {
    throw std::logic_error("the receiving end of a link sends");
  }
  std::int64_t num_received() override { return (*page_)->num_received; }
  bool lets_write() override { return true; }

  void receive(const Tensors& tensors) override {
    const c10::cuda::CUDAGuard guard(gpu_);
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(gpu_).stream();
    const std::int64_t message = num_received();
    const SlotEnd& slot = slot_end(
        static_cast<std::size_t>((*page_)->slot_of[message % kMaxSlots]));
    wait_for_event(stream, slot.sent);
    const char* from = slot.memory;
    for (const at::Tensor& tensor : tensors) {
      C10_CUDA_CHECK(cudaMemcpyAsync(tensor.data_ptr(), from, tensor.nbytes(),
                                     cudaMemcpyDeviceToDevice, stream));
      from += rounded_up(tensor.nbytes(), kAlignment);
    }
    C10_CUDA_CHECK(cudaEventRecord(slot.received, stream));
    (*page_)->num_received = message + 1;
  }

 private:
  const SlotEnd& slot_end(std::size_t index) {
    if (index >= slots_.size()) slots_.resize(index + 1);
    SlotEnd& slot = slots_[index];
    if (slot.memory) return slot;
    const c10::cuda::CUDAGuard guard(gpu_);
    IpcPage::Slot& shared = (*page_)->slots[index];
    void* memory = nullptr;
    C10_CUDA_CHECK(cudaIpcOpenMemHandle(&memory, shared.memory,
                                        cudaIpcMemLazyEnablePeerAccess));
    slot.memory = static_cast<char*>(memory);
    slot.sent = event_of(shared.sent);
    slot.received = shareable_event(shared.received);
    return slot;
  }

  const c10::DeviceIndex gpu_;
  const std::unique_ptr<SharedPage> page_;
  std::vector<SlotEnd> slots_;
};

class IpcLinks final : public LinkKind {
 public:
  std::string name() const override { return "IPC"; }
  std::string end_at(at::Device place) override {
    return HostGpu::at(place.index()).to_text();
  }
  std::string why_not(const std::string& sender,
                      const std::string& receiver) override {
    const bool is_one_host =
        HostGpu::parse(sender).host == HostGpu::parse(receiver).host;
    return is_one_host ? "" : "CUDA IPC is for ranks of one host";
  }
  std::string invitation(at::Device place) override {
    // A process that was killed may have left the name of one of its pages, and
    // in containers that share /dev/shm others have this one's number.
    const std::string name = "/pipewright-" + std::to_string(::getpid()) + "-" +
                             std::to_string(std::random_device()()) + "-" +
                             std::to_string(++num_invitations_);
    sender_ = std::make_unique<IpcSender>(
        place, std::make_unique<SharedPage>(name, true));
    return name;
  }
  std::unique_ptr<DirectLink> open(at::Device place,
                                   const std::string& invitation,
                                   bool is_sender) override {
    if (is_sender) return std::move(sender_);
    return std::make_unique<IpcReceiver>(
        place, std::make_unique<SharedPage>(invitation, false));
  }

 private:
  int num_invitations_ = 0;
  std::unique_ptr<IpcSender> sender_;  // invited, and not opened yet
};

}  // namespace

std::shared_ptr<LinkKind> ipc_links() { return std::make_shared<IpcLinks>(); }

}  // namespace pipewright
