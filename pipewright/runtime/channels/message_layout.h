// The form of a message: number type, sizes and strides of each tensor. The
// sender tells it once per transfer; from then on receives are posted into
// buffers of that form before anything arrives.

#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pipewright {

struct TensorLayout {
  bool is_defined = false;
  at::ScalarType type = at::kFloat;
  std::vector<std::int64_t> sizes, strides;
  std::size_t bytes = 0;
  auto operator<=>(const TensorLayout&) const = default;
};
using MessageLayout = std::vector<std::vector<TensorLayout>>;

// A tensor as it travels: its memory without gaps. Strides are kept where that
// goes, so that kernels at the other end take the same path.
at::Tensor without_gaps(const at::Tensor& tensor);

TensorLayout layout_of(const at::Tensor& tensor);
MessageLayout layout_of(const std::vector<std::vector<at::Tensor>>& values);

std::string packed(const MessageLayout& layout);
MessageLayout unpacked_layout(std::string_view bytes);

// A tensor to receive into. A worker's heap gives it the memory of one that it
// has freed.
at::Tensor buffer_of(const TensorLayout& layout);

}  // namespace pipewright
