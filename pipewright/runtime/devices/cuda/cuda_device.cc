#include "pipewright/runtime/devices/cuda/cuda_device.h"

#include <ATen/ATen.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/util/Exception.h>

#include <limits>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "pipewright/runtime/devices/cuda/compiled_kernels.h"

namespace pipewright {
namespace {

constexpr const char* kFaults = R"(
extern "C" __global__ void hang() {
  for (volatile int forever = 1; forever;) __nanosleep(1000);
}
extern "C" __global__ void lose() { __trap(); }
)";

// As many as steps of a long pipeline have; the GPU has mostly passed them.
constexpr std::size_t kMaxPendingStamps = 16384;
// Of the host: the driver takes as many into memory of its own at once.
constexpr std::size_t kMaxStagedBytes = 1 << 16;

// Whether one is a copy of the other's bytes.
bool are_laid_out_alike(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && a.is_non_overlapping_and_dense();
}

class CudaMoment final : public Moment {
 public:
  CudaMoment(std::shared_ptr<CudaEvents> events, CudaEvent event, int device,
             std::int64_t number)
      : events_(std::move(events)),
        event_(std::move(event)),
        device_(device),
        number_(number) {}

  bool has_passed() const override { return pipewright::has_passed(event_); }
  void wait() const override {
    C10_CUDA_CHECK(cudaEventSynchronize(event_.get()));
  }
  cudaEvent_t event() const { return event_.get(); }
  int device() const { return device_; }
  std::int64_t number() const { return number_; }

 private:
  const std::shared_ptr<CudaEvents> events_;
  const CudaEvent event_;
  const int device_;           // its number in this process
  const std::int64_t number_;  // among the moments of that device
};

class SilentWarnings final : public c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

// LibTorch's allocator and generators, which know all graphs, are shared by all
// threads: one of them makes or destroys a graph at a time.
std::mutex& recording_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

// A CUDA graph. Its stamps are nodes of it.
class CudaDevice::CudaRecording final : public Recording {
 public:
  explicit CudaRecording(CudaDevice& device)
      : device_(device),
        pool_(device.pool_.value_or(at::cuda::graph_pool_handle())),
        graph_(std::make_unique<at::cuda::CUDAGraph>(/*keep_graph=*/true)) {}
  ~CudaRecording() override {
    const std::lock_guard lock(recording_mutex());
    graph_.reset();
  }

  void capture(const std::function<void()>& work) {
    const std::lock_guard lock(recording_mutex());
    // Of its own: what others have freed would stay reserved beside it, and
    // nothing can be given back while it is made.
    if (!device_.pool_) c10::cuda::CUDACachingAllocator::emptyCache();
    try {
      graph_->capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
      device_.in_progress_ = this;
      work();
    } catch (...) {
      device_.in_progress_ = nullptr;
      abandon();
      throw;
    }
    device_.in_progress_ = nullptr;
    end_capture();
    graph_->instantiate();
    exec_ = graph_->raw_cuda_graph_exec();
    C10_CUDA_CHECK(
        cudaGraphGetNodes(graph_->raw_cuda_graph(), nullptr, &num_kernels_));
  }

  void stamp(cudaStream_t stream) {
    events_.push_back(device_.clock_events_->made());
    C10_CUDA_CHECK(cudaEventRecordWithFlags(events_.back().get(), stream,
                                            cudaEventRecordExternal));
  }

  // Not by LibTorch, which would first set up random numbers: none are drawn.
  void replay(std::span<Seconds* const> times) override {
    C10_CUDA_CHECK(cudaGraphLaunch(exec_, device_.stream_.stream()));
    for (std::size_t i = 0; i < times.size(); ++i)
      device_.stamps_.push_back({nullptr, events_.at(i).get(), times[i]});
  }

  std::size_t num_kernels() const override { return num_kernels_; }
  cudaGraph_t graph() const { return graph_->raw_cuda_graph(); }

 private:
  // What failed may have ended the capture, too. LibTorch then throws before it
  // lets go of the memory, of the GPU and of the host. Its random numbers are
  // left as they are: none are drawn.
  void end_capture() {
    using namespace c10::cuda;
    // An action of views alone has no kernels, of which LibTorch would warn.
    SilentWarnings silent;
    const c10::WarningUtils::WarningHandlerGuard guard(&silent);
    try {
      graph_->capture_end();
    } catch (...) {
      static_cast<void>(cudaGetLastError());
      const c10::DeviceIndex gpu = device_.stream_.device_index();
      at::HostAllocator& host = *at::getHostAllocator(at::kCUDA);
      attempt([&] { CUDACachingAllocator::endAllocateToPool(gpu, pool_); });
      attempt([&] { CUDACachingAllocator::releasePool(gpu, pool_); });
      attempt([&] { host.end_allocate_to_pool(pool_); });
      attempt([&] { host.release_pool(pool_); });
      throw;
    }
  }
  void abandon() {
    attempt([this] { end_capture(); });
  }

  // LibTorch throws where it has done so itself.
  template <class Work>
  static void attempt(Work work) {
    try {
      work();
    } catch (const std::exception&) {
    }
  }

  CudaDevice& device_;
  const c10::MempoolId_t pool_;
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
  cudaGraphExec_t exec_ = nullptr;  // graph_'s
  std::vector<CudaEvent> events_;
  std::size_t num_kernels_ = 0;
};

// A CUDA graph of graphs.
class CudaDevice::CudaJointRecording final : public JointRecording {
 public:
  CudaJointRecording() { C10_CUDA_CHECK(cudaGraphCreate(&graph_, 0)); }
  ~CudaJointRecording() override {
    if (exec_) static_cast<void>(cudaGraphExecDestroy(exec_));
    static_cast<void>(cudaGraphDestroy(graph_));
  }

  Node add(const Recording& recording, std::span<const Node> after) override {
    const auto& own = dynamic_cast<const CudaRecording&>(recording);
    const std::vector<cudaGraphNode_t> before = nodes(after);
    cudaGraphNode_t& node = nodes_.emplace_back();
    C10_CUDA_CHECK(cudaGraphAddChildGraphNode(&node, graph_, before.data(),
                                              before.size(), own.graph()));
    return nodes_.size() - 1;
  }

  // Nothing follows it.
  void add_stamp(WorkerDevice& device, std::span<const Node> after) override {
    auto& own = dynamic_cast<CudaDevice&>(device);
    const std::vector<cudaGraphNode_t> before = nodes(after);
    CudaEvent& event = stamps_[&own].emplace_back(own.clock_events_->made());
    cudaGraphNode_t node = nullptr;
    C10_CUDA_CHECK(cudaGraphAddEventRecordNode(&node, graph_, before.data(),
                                               before.size(), event.get()));
  }

  void end() override {
    C10_CUDA_CHECK(cudaGraphInstantiate(&exec_, graph_, 0));
  }

  void replay(WorkerDevice& device) override {
    const auto& on = dynamic_cast<const CudaDevice&>(device);
    C10_CUDA_CHECK(cudaGraphLaunch(exec_, on.stream_.stream()));
  }

  void write_stamps(WorkerDevice& device,
                    std::span<Seconds* const> times) override {
    auto& own = dynamic_cast<CudaDevice&>(device);
    const std::vector<CudaEvent>& events = stamps_[&own];
    for (std::size_t i = 0; i < times.size(); ++i)
      own.stamps_.push_back({nullptr, events.at(i).get(), times[i]});
  }

 private:
  std::vector<cudaGraphNode_t> nodes(std::span<const Node> after) const {
    std::vector<cudaGraphNode_t> result;
    for (const Node node : after) result.push_back(nodes_[node]);
    return result;
  }

  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
  std::vector<cudaGraphNode_t> nodes_;
  std::map<CudaDevice*, std::vector<CudaEvent>> stamps_;
};

CudaDevice::CudaDevice(std::string kind, c10::cuda::CUDAStream stream)
    : number_(num_made_++),
      kind_(std::move(kind)),
      stream_(stream),
      memory_(StreamMemory::of(stream.stream())),
      events_(std::make_shared<CudaEvents>(false)),
      clock_events_(std::make_shared<CudaEvents>(true)) {
  ++count_;
}

CudaDevice::~CudaDevice() {
  memory_.forget_kept_peak();
  --count_;
}

void CudaDevice::serve_this_thread() {
  c10::cuda::set_device(stream_.device_index());
  c10::cuda::setCurrentCUDAStream(stream_);
}

// From the host through pinned memory, which the GPU reads by itself: LibTorch
// keeps it until it has been read.
at::Tensor CudaDevice::copy(const at::Tensor& tensor) {
  const c10::cuda::CUDAStreamGuard guard(stream_);
  if (tensor.is_cpu())
    return tensor.pin_memory().to(tensor.options().device(place()),
                                  /*non_blocking=*/true);
  at::Tensor here = at::empty_like(tensor, tensor.options().device(place()));
  fill(here, tensor);
  return here;
}

void CudaDevice::fill(at::Tensor& to, const at::Tensor& from) {
  const bool is_staged = from.is_cpu() && from.nbytes() <= kMaxStagedBytes;
  if (are_laid_out_alike(to, from) && (is_staged || from.device() == place())) {
    C10_CUDA_CHECK(cudaMemcpyAsync(
        to.data_ptr(), from.const_data_ptr(), from.nbytes(),
        from.is_cpu() ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToDevice,
        stream_.stream()));
    return;
  }
  const c10::cuda::CUDAStreamGuard guard(stream_);
  to.copy_(from.is_cpu() ? from.pin_memory() : from, /*non_blocking=*/true);
}

CudaEvent CudaDevice::recorded(CudaEvents& events) {
  CudaEvent event = events.made();
  C10_CUDA_CHECK(cudaEventRecord(event.get(), stream_.stream()));
  return event;
}

MomentPointer CudaDevice::moment() {
  const c10::cuda::CUDAGuard guard(stream_.device_index());
  auto moment = std::make_shared<CudaMoment>(events_, recorded(*events_),
                                             number_, ++num_moments_);
  log_.add_point(moment);
  return moment;
}

void CudaDevice::wait_for(const MomentPointer& moment) {
  if (!moment) return;
  const auto* on_gpu = dynamic_cast<const CudaMoment*>(moment.get());
  if (!on_gpu) return moment->wait();
  std::int64_t& last = waited_for_[on_gpu->device()];
  if (on_gpu->number() <= last) return;
  last = on_gpu->number();
  C10_CUDA_CHECK(cudaStreamWaitEvent(stream_.stream(), on_gpu->event(), 0));
  log_.add_wait(moment);
}

// Two moments: what is unpassed between them is the wait alone.
void CudaDevice::end_wait() {
  const c10::cuda::CUDAGuard guard(stream_.device_index());
  log_.add_wait(std::make_shared<CudaMoment>(events_, recorded(*events_),
                                             number_, ++num_moments_));
}

void CudaDevice::finish() {
  moment();
  stream_.synchronize();
  write_stamps(0);
}

void CudaDevice::start_clock(Clock::time_point start) {
  const c10::cuda::CUDAGuard guard(stream_.device_index());
  origin_ = recorded(*clock_events_);
  C10_CUDA_CHECK(cudaEventSynchronize(origin_.get()));
  origin_time_ =
      Seconds(std::chrono::duration<double>(Clock::now() - start).count());
}

void CudaDevice::stamp(Seconds& time) {
  if (in_progress_) return in_progress_->stamp(stream_.stream());
  auto own = std::make_shared<CudaMoment>(clock_events_,
                                          recorded(*clock_events_), number_, 0);
  const cudaEvent_t event = own->event();
  log_.add_point(own);
  stamps_.push_back({std::move(own), event, &time});
  if (stamps_.size() > kMaxPendingStamps) write_stamps(kMaxPendingStamps / 2);
}

// Waits for those that the GPU has not passed.
void CudaDevice::write_stamps(std::size_t num_left) {
  for (; stamps_.size() > num_left; stamps_.pop_front()) {
    float milliseconds = 0;
    const cudaEvent_t event = stamps_.front().event;
    C10_CUDA_CHECK(cudaEventSynchronize(event));
    C10_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, origin_.get(), event));
    *stamps_.front().time = origin_time_ + Seconds(milliseconds / 1e3);
  }
}

std::unique_ptr<Recording> CudaDevice::record(
    const std::function<void()>& work) {
  auto recording = std::make_unique<CudaRecording>(*this);
  recording->capture(work);
  if (pool_) memory_.keep_peak();
  return recording;
}

// What a GPU that is lost, or a kernel that fails, leaves behind is the same:
// every call of this process for that GPU fails.
void CudaDevice::suffer(DeviceFault fault) {
  if (fault == DeviceFault::IsFull) return WorkerDevice::suffer(fault);
  int capability = 0, minor = 0;
  const int gpu = stream_.device_index();
  C10_CUDA_CHECK(cudaDeviceGetAttribute(
      &capability, cudaDevAttrComputeCapabilityMajor, gpu));
  C10_CUDA_CHECK(
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, gpu));
  auto kernels = CompiledKernels::compile(kFaults, 10 * capability + minor);
  if (!kernels) throw std::runtime_error(kernels.error().to_text());
  (*kernels)->launch(fault == DeviceFault::Hangs ? "hang" : "lose", dim3(1),
                     dim3(1), nullptr, stream_.stream());
}

std::unique_ptr<JointRecording> CudaDevice::joint_recording() {
  return std::make_unique<CudaJointRecording>();
}

// What steps before the first recording have freed would stay reserved beside
// the memory of the recordings.
void CudaDevice::begin_recordings() {
  const std::lock_guard lock(recording_mutex());
  c10::cuda::CUDACachingAllocator::emptyCache();
  memory_.begin_recordings();
  pool_ = at::cuda::graph_pool_handle();
}

// LibTorch forgets memory that no recording has any more.
void CudaDevice::end_recordings() {
  memory_.forget_kept_peak();
  pool_.reset();
}

}  // namespace pipewright
