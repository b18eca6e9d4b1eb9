// The layout of a message: number type, sizes and strides of each tensor. The
// sender sends it once per transfer; from then on receives are posted into
// buffers of that layout before anything arrives.

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

// A tensor as it is sent: its memory has no gaps. Strides are kept where
// possible, so that kernels on the receiver take the same path. A tensor on a
// device is copied to pinned memory of the host, unless it may be sent
// `directly`.
at::Tensor as_sent(const at::Tensor& tensor, bool directly);
void as_sent(const Values& values, bool directly, Values& sent);

// The layout of values that are sent as `sent`, and whether it is this one.
MessageLayout layout_of(const Values& values, const Values& sent);
bool has_layout(const Values& values, const Values& sent,
                const MessageLayout& layout);

std::string packed(const MessageLayout& layout);
MessageLayout unpacked_layout(std::string_view bytes);

// A tensor to receive into, and, once it has arrived, the tensor that was sent:
// on the device that this process uses at present.
at::Tensor buffer_of(const TensorLayout& layout, bool directly);
at::Tensor as_received(at::Tensor buffer, at::DeviceType device);

}  // namespace pipewright
