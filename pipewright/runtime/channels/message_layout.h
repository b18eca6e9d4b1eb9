// The form of a message: number type, sizes and strides of each tensor. The
// sender tells it once per transfer; from then on receives are posted into
// buffers of that form before anything arrives.

#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pipewright/runtime/tensors.h"

namespace pipewright {

struct TensorLayout {
  bool is_defined = false;
  at::ScalarType type = at::kFloat;
  std::vector<std::int64_t> sizes, strides;
  std::size_t bytes = 0;
  at::DeviceType device = at::kCPU;
  auto operator<=>(const TensorLayout&) const = default;
};
using MessageLayout = std::vector<std::vector<TensorLayout>>;

// A tensor as it travels: its memory without gaps. Strides are kept where that
// goes, so that kernels at the other end take the same path. What is on a
// device goes through pinned memory of the host, unless it may be sent
// `directly`.
at::Tensor as_sent(const at::Tensor& tensor, bool directly);
void as_sent(const Values& values, bool directly, Values& sent);

// The form of values that are sent as `sent`, and whether it is this one.
MessageLayout layout_of(const Values& values, const Values& sent);
bool has_layout(const Values& values, const Values& sent,
                const MessageLayout& layout);

std::string packed(const MessageLayout& layout);
MessageLayout unpacked_layout(std::string_view bytes);

// A tensor to receive into, and the one that was meant once it has arrived: on
// the device that this process uses at present. A worker's heap gives it the
// memory of one that it has freed.
at::Tensor buffer_of(const TensorLayout& layout, bool directly);
at::Tensor as_received(at::Tensor buffer, at::DeviceType device);

}  // namespace pipewright
