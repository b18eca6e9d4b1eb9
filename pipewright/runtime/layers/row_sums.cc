// See row_sums.h. A reduction or a broadcast of ATen takes microseconds before
// it comes to the first number; for few rows that is most of the time.

#include "pipewright/runtime/layers/row_sums.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

namespace pipewright {
namespace {

constexpr std::int64_t kColumns = 256, kRows = 64, kFew = 16;

template <typename Number>
void add_block(const Number* rows, std::int64_t num_rows, std::int64_t width,
               std::int64_t columns, Number* sum) {
  std::array<Number, kColumns> partial{};
  for (std::int64_t r = 0; r < num_rows; ++r, rows += width) {
    if (columns == kColumns)
      for (std::int64_t c = 0; c < kColumns; ++c)
        partial[static_cast<std::size_t>(c)] += rows[c];
    else
      for (std::int64_t c = 0; c < columns; ++c)
        partial[static_cast<std::size_t>(c)] += rows[c];
  }
  for (std::int64_t c = 0; c < columns; ++c)
    sum[c] += partial[static_cast<std::size_t>(c)];
}

template <typename Number>
void add_all(const at::Tensor& rows, at::Tensor& sum) {
  const std::int64_t num_rows = rows.size(0), width = rows.size(1);
  const auto* from = rows.const_data_ptr<Number>();
  auto* to = sum.mutable_data_ptr<Number>();
  for (std::int64_t r = 0; r < num_rows; r += kRows)
    for (std::int64_t c = 0; c < width; c += kColumns)
      add_block(from + r * width + c, std::min(kRows, num_rows - r), width,
                std::min(kColumns, width - c), to + c);
}

template <typename Number>
struct Normalised {
  const Number *gradient, *input, *mean, *scale;
  std::int64_t num_rows, width;
};

// So few that their sums stay in registers.
template <std::int64_t kCount, typename Number>
void add_normalised_columns(const Normalised<Number>& all, std::int64_t column,
                            Number* gain, Number* shift) {
  std::array<Number, kCount> of_gain{}, of_shift{};
  for (std::int64_t r = 0; r < all.num_rows; ++r) {
    const Number scale = all.scale[r], offset = -scale * all.mean[r];
    const Number* gradient = all.gradient + r * all.width + column;
    const Number* input = all.input + r * all.width + column;
    for (std::size_t c = 0; c < kCount; ++c) {
      of_gain[c] += gradient[c] * (scale * input[c] + offset);
      of_shift[c] += gradient[c];
    }
  }
  for (std::size_t c = 0; c < kCount; ++c) {
    gain[c] += of_gain[c];
    shift[c] += of_shift[c];
  }
}

template <typename Number>
void add_all_normalised(at::Tensor& gain, at::Tensor& shift,
                        const at::Tensor& gradient, const at::Tensor& input,
                        const at::Tensor& mean, const at::Tensor& scale) {
  const Normalised<Number> all{gradient.const_data_ptr<Number>(),
                               input.const_data_ptr<Number>(),
                               mean.const_data_ptr<Number>(),
                               scale.const_data_ptr<Number>(),
                               mean.numel(),
                               gain.numel()};
  auto* to_gain = gain.mutable_data_ptr<Number>();
  auto* to_shift = shift.mutable_data_ptr<Number>();
  std::int64_t c = 0;
  for (; c + kFew <= all.width; c += kFew)
    add_normalised_columns<kFew>(all, c, to_gain + c, to_shift + c);
  for (; c < all.width; ++c)
    add_normalised_columns<1>(all, c, to_gain + c, to_shift + c);
}

}  // namespace

bool can_add_normalised(const at::Tensor& gradient, const at::Tensor& input,
                        const at::Tensor& mean) {
  const at::ScalarType type = gradient.scalar_type();
  return (type == at::kFloat || type == at::kDouble) &&
         input.scalar_type() == type && mean.scalar_type() == type &&
         gradient.is_contiguous() && input.is_contiguous();
}

void add_normalised_row_sums(at::Tensor& gain, at::Tensor& shift,
                             const at::Tensor& gradient,
                             const at::Tensor& input, const at::Tensor& mean,
                             const at::Tensor& scale) {
  if (gradient.scalar_type() == at::kFloat)
    add_all_normalised<float>(gain, shift, gradient, input, mean, scale);
  else
    add_all_normalised<double>(gain, shift, gradient, input, mean, scale);
}

at::Tensor repeated_row(const at::Tensor& row, std::int64_t num_rows) {
  at::Tensor rows = at::empty({num_rows, row.size(0)}, row.options());
  if (!row.is_contiguous()) return rows.copy_(row);
  const auto bytes = static_cast<std::size_t>(row.nbytes());
  auto* to = static_cast<std::byte*>(rows.mutable_data_ptr());
  for (std::int64_t r = 0; r < num_rows; ++r, to += bytes)
    std::memcpy(to, row.const_data_ptr(), bytes);
  return rows;
}

void add_row_sums(at::Tensor& sum, const at::Tensor& rows) {
  const bool is_plain = rows.is_contiguous() && sum.is_contiguous() &&
                        rows.scalar_type() == sum.scalar_type();
  if (is_plain && rows.scalar_type() == at::kFloat)
    add_all<float>(rows, sum);
  else if (is_plain && rows.scalar_type() == at::kDouble)
    add_all<double>(rows, sum);
  else
    sum.add_(rows.sum(0));
}

}  // namespace pipewright
