// Tensors of the type PrivateUse1; see remote_device.h.

#include "tests/runtime/devices/remote_device.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>

namespace pipewright::testing {
namespace {

constexpr auto kRemote = c10::DeviceType::PrivateUse1;

class RemoteAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* memory = std::malloc(bytes);
    return {memory, memory, &std::free, {kRemote, 0}};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &std::free; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
};

c10::Allocator* remote_allocator() {
  static RemoteAllocator allocator;
  return &allocator;
}

// Memory that a GPU's driver would pin. Workers may free it, and the thread
// that they are started from; in others a worker's recording would not know.
class PinnedAllocator final : public c10::Allocator {
 public:
  static void serve_this_thread() { is_worker_ = true; }
  static bool serves_this_thread() { return is_worker_; }
  static int num_freed_elsewhere() { return num_freed_elsewhere_; }

  c10::DataPtr allocate(std::size_t bytes) override {
    void* memory = std::malloc(bytes);
    return {memory, memory, &free_pinned, c10::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_pinned; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

 private:
  static void free_pinned(void* memory) {
    if (memory && !is_worker_ && ::gettid() != ::getpid())
      ++num_freed_elsewhere_;
    std::free(memory);
  }
  inline static thread_local bool is_worker_ = false;
  inline static std::atomic<int> num_freed_elsewhere_ = 0;
};

c10::Allocator* pinned_allocator() {
  static PinnedAllocator allocator;
  return &allocator;
}

// Copies to the host that have not been made.
class LateCopies {
 public:
  void add(at::Tensor from, at::Tensor to) {
    const std::lock_guard lock(mutex_);
    copies_.push_back({std::move(from), std::move(to)});
    ++num_added_;
  }
  std::int64_t num_added() {
    const std::lock_guard lock(mutex_);
    return num_added_;
  }
  void make(std::int64_t up_to) {
    const std::lock_guard lock(mutex_);
    const c10::InferenceMode guard;  // also on a thread of messages
    for (; num_made_ < up_to; ++num_made_, copies_.pop_front())
      copies_.front().to.copy_(copies_.front().from);
  }
  std::int64_t num_made() {
    const std::lock_guard lock(mutex_);
    return num_made_;
  }

 private:
  struct Copy {
    at::Tensor from, to;
  };
  std::mutex mutex_;
  std::deque<Copy> copies_;
  std::int64_t num_added_ = 0, num_made_ = 0;
};

LateCopies& late_copies() {
  static LateCopies copies;
  return copies;
}

struct RemoteEvent {
  std::int64_t after = 0;  // copies
  int num_asked = 0;
};

struct RemoteGuard final : c10::impl::NoOpDeviceGuardImpl<kRemote> {
  c10::Device getDevice() const override { return {kRemote, 0}; }
  c10::Device exchangeDevice(c10::Device) const override {
    return {kRemote, 0};
  }
  c10::Stream getStream(c10::Device) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, {kRemote, 0});
  }
  void record(void** event, const c10::Stream&, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    if (!*event) *event = new RemoteEvent;
    *static_cast<RemoteEvent*>(*event) = {late_copies().num_added(), 0};
  }
  bool queryEvent(void* event) const override {
    auto* const asked = static_cast<RemoteEvent*>(event);
    if (++asked->num_asked < 2) return false;
    late_copies().make(asked->after);
    return true;
  }
  void synchronizeEvent(void* event) const override {
    late_copies().make(static_cast<RemoteEvent*>(event)->after);
  }
  void destroyEvent(void* event,
                    const c10::DeviceIndex) const noexcept override {
    delete static_cast<RemoteEvent*>(event);
  }
};

struct RemoteHooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(at::DeviceIndex) const override { return true; }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    return pinned_allocator();
  }
};

at::ScalarType integer_of(std::size_t bytes) {
  switch (bytes) {
    case 1:
      return at::kChar;
    case 2:
      return at::kShort;
    case 4:
      return at::kInt;
    case 8:
      return at::kLong;
    default:
      return at::kComplexDouble;  // stays as it is
  }
}

// The bits as they are in the memory of the device, or of the host.
at::Tensor bits_of(const at::Tensor& tensor) {
  const at::ScalarType type = integer_of(tensor.element_size());
  if (tensor.is_cpu()) return tensor.view(type);
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                       at::dtype(type));
}

at::Tensor inverted(const at::Tensor& bits) {
  return bits.is_complex() ? bits.clone() : bits.bitwise_not();
}

at::Tensor to_host(const at::Tensor& remote) {
  return inverted(bits_of(remote)).view(remote.scalar_type());
}

std::atomic<int> copies_left = -1;

void fail_if_due() {
  if (PinnedAllocator::serves_this_thread() || copies_left < 0) return;
  TORCH_CHECK(copies_left > 0, "CUDA error: an illegal memory access");
  --copies_left;
}

at::Tensor copy_between(const at::Tensor& from, const at::Tensor& to,
                        bool non_blocking) {
  if (to.is_cpu()) {
    fail_if_due();
    if (non_blocking && from.sizes() == to.sizes())
      late_copies().add(to_host(from), to);
    else
      to.copy_(to_host(from));
    return to;
  }
  const at::Tensor host = from.is_cpu() ? from : to_host(from);
  bits_of(to).copy_(inverted(bits_of(host.to(to.scalar_type()))));
  return to;
}

at::Tensor copy_and_resize(const at::Tensor& from, const at::Tensor& to) {
  TORCH_CHECK(from.sizes() == to.sizes(), "the remote device resizes nothing");
  return copy_between(from, to, false);
}

at::Tensor remote_empty(at::IntArrayRef sizes,
                        std::optional<at::ScalarType> type,
                        std::optional<at::Layout>, std::optional<at::Device>,
                        std::optional<bool>,
                        std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(
      sizes, remote_allocator(),
      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      type.value_or(at::kFloat), format);
}

at::Tensor remote_empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides,
                                std::optional<at::ScalarType> type,
                                std::optional<at::Layout>,
                                std::optional<at::Device>,
                                std::optional<bool>) {
  return at::detail::empty_strided_generic(
      sizes, strides, remote_allocator(),
      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      type.value_or(at::kFloat));
}

at::Tensor remote_as_strided(const at::Tensor& self, at::IntArrayRef sizes,
                             at::IntArrayRef strides,
                             std::optional<std::int64_t> offset) {
  return at::native::as_strided_tensorimpl(self, sizes, strides, offset);
}

at::Tensor remote_view(const at::Tensor& self, at::IntArrayRef sizes) {
  return at::native::view(self, sizes);
}

at::Tensor remote_reshape_alias(const at::Tensor& self, at::IntArrayRef sizes,
                                at::IntArrayRef strides) {
  return at::native::_reshape_alias(self, sizes, strides);
}

void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  at::native::cpu_fallback(op, stack);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", &remote_empty);
  library.impl("empty_strided", &remote_empty_strided);
  library.impl("as_strided", &remote_as_strided);
  library.impl("view", &remote_view);
  library.impl("_reshape_alias", &remote_reshape_alias);
  library.impl("_copy_from", &copy_between);
  library.impl("_copy_from_and_resize", &copy_and_resize);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

C10_REGISTER_GUARD_IMPL(PrivateUse1, RemoteGuard)

// Once per process.
void register_remote() {
  static const bool is_done = [] {
    static RemoteHooks hooks;
    at::RegisterPrivateUse1HooksInterface(&hooks);
    c10::register_privateuse1_backend("remote");
    c10::SetAllocator(kRemote, remote_allocator());
    return true;
  }();
  static_cast<void>(is_done);
}

}  // namespace

RemoteDevice::RemoteDevice() { register_remote(); }

void RemoteDevice::serve_this_thread() {
  memory_.serve_this_thread();
  PinnedAllocator::serve_this_thread();
}

void fail_after(int copies) { copies_left = copies; }
int num_freed_elsewhere() { return PinnedAllocator::num_freed_elsewhere(); }
int num_late_copies() { return static_cast<int>(late_copies().num_made()); }

}  // namespace pipewright::testing
