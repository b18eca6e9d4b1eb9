#include "pipewright/runtime/layers/dropout_mask.h"

#include <cmath>

#include "pipewright/runtime/fused_kernels.h"

namespace pipewright {
namespace {

std::int64_t as_signed(std::uint64_t bits) {
  return static_cast<std::int64_t>(bits);
}

// Of 64 unsigned bits that are stored as signed ones.
at::Tensor shifted_right(const at::Tensor& bits, int by) {
  return at::bitwise_and(at::bitwise_right_shift(bits, by),
                         (std::int64_t{1} << (64 - by)) - 1);
}

}  // namespace

at::Tensor mask_by_loop(const RandomStream& stream, at::IntArrayRef sizes,
                        std::int64_t first, double rate) {
  at::Tensor keep = at::empty(sizes, at::kBool);
  bool* elements = keep.data_ptr<bool>();
  for (std::int64_t i = 0; i < keep.numel(); ++i)
    elements[i] = stream.uniform(static_cast<std::uint64_t>(first + i)) >= rate;
  return keep;
}

// uniform(i) >= rate, as a comparison of its 53 bits. Products of signed
// numbers wrap, as those of unsigned ones do.
at::Tensor mask_by_tensors(const RandomStream& stream, at::IntArrayRef sizes,
                           std::int64_t first, double rate,
                           const at::Device& device) {
  const std::int64_t count = c10::multiply_integers(sizes);
  at::Tensor bits = at::arange(first + 1, first + 1 + count,
                               at::TensorOptions(at::kLong).device(device));
  bits.mul_(as_signed(RandomStream::kStride)).add_(as_signed(stream.key()));
  bits.bitwise_xor_(shifted_right(bits, RandomStream::kShifts[0]))
      .mul_(as_signed(RandomStream::kFactors[0]));
  bits.bitwise_xor_(shifted_right(bits, RandomStream::kShifts[1]))
      .mul_(as_signed(RandomStream::kFactors[1]));
  bits.bitwise_xor_(shifted_right(bits, RandomStream::kShifts[2]));
  const auto least = static_cast<std::int64_t>(std::ceil(rate * 0x1p53));
  return shifted_right(bits, 11).ge(least).view(sizes);
}

at::Tensor dropout_mask(const at::Tensor& like, const MaskStream& stream,
                        double rate) {
  const FusedKernels* fused =
      stream.number.defined() ? fused_kernels(like) : nullptr;
  if (fused) {
    at::Tensor keep = at::empty(like.sizes(), like.options().dtype(at::kBool));
    fused->draw_mask(stream.name, stream.number, stream.first, rate, keep);
    return keep;
  }
  if (stream.draws) *stream.draws = true;
  const RandomStream numbers = stream.name.of(stream.microbatch);
  if (like.is_cpu())
    return mask_by_loop(numbers, like.sizes(), stream.first, rate);
  return mask_by_tensors(numbers, like.sizes(), stream.first, rate,
                         like.device());
}

at::Tensor dropout_mask(const at::Tensor& like, LayerId layer, double rate,
                        const ForwardContext& context) {
  const std::int64_t first =
      context.first_sample * (like.numel() / like.size(0));
  return dropout_mask(like,
                      {{context.seed, static_cast<std::uint64_t>(layer.value)},
                       context.microbatch,
                       context.number,
                       first,
                       context.draws},
                      rate);
}

}  // namespace pipewright
