// See bias_kernels.h. What fits into the first cache is done by plain loops:
// ATen needs longer to begin. The rest is ATen's.

#include "pipewright/runtime/layers/bias_kernels.h"

#include <ATen/ATen.h>

#include <array>
#include <cstddef>
#include <cstring>

namespace pipewright {
namespace {

constexpr std::int64_t kSmallBytes = 16 << 10;

bool is_small(const at::Tensor& rows) {
  return rows.is_cpu() && rows.is_contiguous() &&
         static_cast<std::int64_t>(rows.nbytes()) <= kSmallBytes;
}

// So few columns that their sums stay in registers.
template <std::size_t kCount>
void add_columns(const float* rows, std::int64_t num_rows, std::int64_t width,
                 float* sum) {
  std::array<float, kCount> partial{};
  for (std::int64_t row = 0; row < num_rows; ++row, rows += width)
    for (std::size_t c = 0; c < kCount; ++c) partial[c] += rows[c];
  for (std::size_t c = 0; c < kCount; ++c) sum[c] += partial[c];
}

void add_small_rows(const float* rows, std::int64_t num_rows,
                    std::int64_t width, float* sum) {
  constexpr std::int64_t kFew = 16;
  std::int64_t c = 0;
  for (; c + kFew <= width; c += kFew)
    add_columns<kFew>(rows + c, num_rows, width, sum + c);
  for (; c < width; ++c) add_columns<1>(rows + c, num_rows, width, sum + c);
}

// Kept for the next call, and as long as the longest asked for.
at::Tensor ones(std::int64_t count, const at::TensorOptions& options) {
  thread_local at::Tensor kept;
  if (!kept.defined() || kept.size(0) < count)
    kept = at::ones({count}, options);
  return kept.narrow(0, 0, count);
}

}  // namespace

at::Tensor repeated_bias(const at::Tensor& bias, std::int64_t num_rows) {
  at::Tensor rows = at::empty({num_rows, bias.size(0)}, bias.options());
  const auto bytes = static_cast<std::size_t>(bias.nbytes());
  if (!bias.is_cpu() || !bias.is_contiguous() ||
      num_rows * static_cast<std::int64_t>(bytes) > kSmallBytes)
    return rows.copy_(bias);
  auto* to = static_cast<std::byte*>(rows.mutable_data_ptr());
  for (std::int64_t row = 0; row < num_rows; ++row, to += bytes)
    std::memcpy(to, bias.const_data_ptr(), bytes);
  return rows;
}

// The product with a vector of ones is the same sum, and BLAS takes half the
// time of ATen's reduction for it.
void add_row_sum(const at::Tensor& rows, at::Tensor& sum) {
  if (rows.scalar_type() != at::kFloat || sum.scalar_type() != at::kFloat ||
      !rows.is_cpu())
    sum.add_(rows.sum(0));
  else if (is_small(rows) && sum.is_contiguous())
    add_small_rows(rows.const_data_ptr<float>(), rows.size(0), rows.size(1),
                   sum.mutable_data_ptr<float>());
  else
    sum.addmv_(rows.t(), ones(rows.size(0), rows.options()));
}

}  // namespace pipewright
