// Shapes, memory and launches of the kernels in fused_source.h.

#include "pipewright/runtime/devices/cuda/cuda_fused_kernels.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <cmath>
#include <optional>
#include <utility>

#include "pipewright/runtime/devices/cuda/compiled_kernels.h"
#include "pipewright/runtime/devices/cuda/fused_source.h"
#include "pipewright/runtime/fused_kernels.h"

namespace pipewright {
namespace {

unsigned divided_up(std::int64_t number, std::int64_t by) {
  return static_cast<unsigned>((number + by - 1) / by);
}

// Rows x columns, of which those of a row are next to each other.
at::Tensor as_matrix(const at::Tensor& tensor) {
  const at::Tensor rows = tensor.reshape({-1, tensor.size(-1)});
  return rows.stride(1) == 1 || rows.size(1) == 1 ? rows : rows.contiguous();
}

// Targets or tokens, one after the other.
at::Tensor numbered(const at::Tensor& tensor) {
  return tensor.reshape({-1}).to(at::kLong).contiguous();
}

class CudaFusedKernels final : public FusedKernels {
 public:
  explicit CudaFusedKernels(std::unique_ptr<CompiledKernels> kernels)
      : kernels_(std::move(kernels)) {}

  int num_multiprocessors() const override {
    int number = 0;
    C10_CUDA_CHECK(cudaDeviceGetAttribute(
        &number, cudaDevAttrMultiProcessorCount, c10::cuda::current_device()));
    return number;
  }

  at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                           at::Tensor& derivative) const override {
    const at::Tensor from = as_matrix(logits);
    const at::Tensor classes = numbered(targets);
    const at::Tensor to = derivative.view({-1, derivative.size(-1)});
    at::Tensor losses =
        at::empty({from.size(0)}, logits.options().dtype(at::kFloat));
    launch("cross_entropy", logits, {count(from.size(0))}, {kRowThreads},
           from.data_ptr(), from.stride(0), classes.data_ptr(), from.size(1),
           losses.data_ptr(), to.data_ptr(), to.stride(0));
    return losses;
  }

  void multiply(const at::Tensor& rows, const at::Tensor& factor, double scale,
                at::Tensor& result) const override {
    const at::Tensor from = as_matrix(rows);
    const at::Tensor to = result.view({-1, result.size(-1)});
    launch("multiply", rows, {count(from.size(0))}, {kRowThreads},
           from.data_ptr(), from.stride(0), factor.data_ptr(),
           static_cast<float>(scale), from.size(1), to.data_ptr(),
           to.stride(0));
  }

  void normalize(const at::Tensor& rows, const at::Tensor& gain,
                 const at::Tensor& shift, double epsilon, at::Tensor& result,
                 at::Tensor& mean, at::Tensor& scale) const override {
    const at::Tensor from = as_matrix(rows);
    launch("normalize", rows, {divided_up(from.size(0), kTableThreads / 32)},
           {kTableThreads}, from.data_ptr(), from.stride(0), from.size(0),
           from.size(1), gain.data_ptr(), shift.data_ptr(),
           static_cast<float>(epsilon), result.data_ptr(), mean.data_ptr(),
           scale.data_ptr());
  }

  void normalize_backward(const at::Tensor& gradient, const at::Tensor& input,
                          const at::Tensor& gain, const at::Tensor& mean,
                          const at::Tensor& scale, bool adds,
                          at::Tensor& result) const override {
    const at::Tensor from = as_matrix(gradient), inputs = as_matrix(input);
    launch("normalize_backward", gradient,
           {divided_up(from.size(0), kTableThreads / 32)}, {kTableThreads},
           from.data_ptr(), from.stride(0), inputs.data_ptr(), inputs.stride(0),
           from.size(0), from.size(1), gain.data_ptr(), mean.data_ptr(),
           scale.data_ptr(), int{adds}, result.data_ptr());
  }

  void draw_mask(const LayerStream& stream, const at::Tensor& microbatch,
                 std::int64_t first, double rate,
                 at::Tensor& keep) const override {
    const std::int64_t call =
        stream.call ? static_cast<std::int64_t>(*stream.call) : -1;
    const auto least = static_cast<std::uint64_t>(std::ceil(rate * 0x1p53));
    launch_named("draw_mask", keep.device(),
                 {divided_up(keep.numel(), kTableThreads * kNumbersOfThread)},
                 {kTableThreads}, stream.seed, microbatch.data_ptr(),
                 stream.layer, call, first, least, keep.numel(),
                 keep.data_ptr());
  }

  void sum_rows(const at::Tensor& rows, bool is_first,
                at::Tensor& sum) const override {
    const at::Tensor from = as_matrix(rows);
    const dim3 blocks = blocks_of(from);
    const at::Tensor partial = partial_sums(from, blocks, 1);
    launch("sum_rows", rows, blocks, {32, 8}, from.data_ptr(), from.stride(0),
           from.size(0), from.size(1), kChunkRows, int{is_first},
           sum.data_ptr(), data_of(partial));
    if (blocks.y > 1) add_chunks(partial, is_first, sum, sum);
  }

  void sum_norm(const at::Tensor& gradient, const at::Tensor& input,
                const at::Tensor& mean, const at::Tensor& scale, bool is_first,
                at::Tensor& gain, at::Tensor& shift) const override {
    const at::Tensor from = as_matrix(gradient), inputs = as_matrix(input);
    const dim3 blocks = blocks_of(from);
    const at::Tensor partial = partial_sums(from, blocks, 2);
    launch("sum_norm", gradient, blocks, {32, 8}, from.data_ptr(),
           from.stride(0), inputs.data_ptr(), inputs.stride(0), mean.data_ptr(),
           scale.data_ptr(), from.size(0), from.size(1), kChunkRows,
           int{is_first}, gain.data_ptr(), shift.data_ptr(), data_of(partial));
    if (blocks.y > 1) add_chunks(partial, is_first, gain, shift);
  }

  void add_to_table(const at::Tensor& tokens, const at::Tensor& rows,
                    double scale, at::Tensor& table) const override {
    const at::Tensor all = numbered(tokens);
    const at::Tensor from = as_matrix(rows);
    launch("add_to_table", rows, {count(all.size(0))}, {kTableThreads},
           all.data_ptr(), static_cast<int>(all.size(0)), from.data_ptr(),
           from.stride(0), from.size(1), static_cast<float>(scale),
           table.size(0), table.data_ptr());
  }

  void descend(const at::Tensor& gradient, double rate, double momentum,
               at::Tensor& velocity, at::Tensor& master,
               at::Tensor& weights) const override {
    launch("descend", weights,
           {divided_up(weights.numel(), kTableThreads * kNumbersOfThread)},
           {kTableThreads}, gradient.data_ptr(), static_cast<float>(rate),
           static_cast<float>(momentum), data_of(velocity), data_of(master),
           weights.data_ptr(), weights.numel());
  }

 private:
  static unsigned count(std::int64_t number) {
    return static_cast<unsigned>(number);
  }
  static dim3 blocks_of(const at::Tensor& rows) {
    return {divided_up(rows.size(1), kBlockColumns),
            divided_up(rows.size(0), kChunkRows)};
  }
  // Of several chunks.
  static at::Tensor partial_sums(const at::Tensor& rows, const dim3& blocks,
                                 std::int64_t sums) {
    if (blocks.y == 1) return {};
    return at::empty({sums, std::int64_t{blocks.y}, rows.size(1)},
                     rows.options().dtype(at::kFloat));
  }
  static void* data_of(const at::Tensor& tensor) {
    return tensor.defined() ? tensor.data_ptr() : nullptr;
  }
  // Of one or two sums.
  void add_chunks(const at::Tensor& partial, bool is_first, at::Tensor& first,
                  at::Tensor& second) const {
    launch("add_chunks", first,
           {divided_up(partial.size(2), 32), count(partial.size(0))}, {32, 8},
           partial.data_ptr(), static_cast<int>(partial.size(1)),
           partial.size(2), int{is_first}, first.data_ptr(), second.data_ptr());
  }

  // For tensors of the type of `like`, in the thread's stream.
  template <class... Arguments>
  void launch(const std::string& name, const at::Tensor& like, dim3 blocks,
              dim3 threads, Arguments... arguments) const {
    launch_named(name + (like.scalar_type() == at::kFloat ? "_float" : "_bf16"),
                 like.device(), blocks, threads, arguments...);
  }
  template <class... Arguments>
  void launch_named(const std::string& name, const at::Device& device,
                    dim3 blocks, dim3 threads, Arguments... arguments) const {
    if (blocks.x == 0 || blocks.y == 0) return;
    void* pointers[] = {static_cast<void*>(&arguments)...};
    kernels_->launch(name, blocks, threads, pointers,
                     c10::cuda::getCurrentCUDAStream(device.index()).stream());
  }

  const std::unique_ptr<CompiledKernels> kernels_;
};

// Of all GPUs, as 90 for 9.0.
Result<int> common_capability() {
  std::optional<int> common;
  for (int i = 0; i < c10::cuda::device_count(); ++i) {
    int major = 0, minor = 0;
    C10_CUDA_CHECK(
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, i));
    C10_CUDA_CHECK(
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, i));
    const int capability = 10 * major + minor;
    if (common.value_or(capability) != capability)
      return bad_configuration("the GPUs are of different kinds");
    common = capability;
  }
  // bfloat16 is rounded by an instruction that came with 8.0.
  if (common.value_or(0) < 80)
    return bad_configuration("a GPU of compute capability 8.0 is needed");
  return *common;
}

Result<std::unique_ptr<const FusedKernels>> made_kernels() {
  PIPEWRIGHT_TRY(const int capability, common_capability());
  PIPEWRIGHT_TRY(std::unique_ptr<CompiledKernels> compiled,
                 CompiledKernels::compile(kFusedSource, capability));
  return std::unique_ptr<const FusedKernels>(
      std::make_unique<CudaFusedKernels>(std::move(compiled)));
}

}  // namespace

// Never destroyed: graphs may hold its kernels until the process ends.
Result<const FusedKernels*> cuda_fused_kernels() {
  static const auto* const kMade =
      new Result<std::unique_ptr<const FusedKernels>>(made_kernels());
  if (!*kMade) return kMade->error();
  return kMade->value().get();
}

}  // namespace pipewright
