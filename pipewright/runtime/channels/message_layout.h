// The layout of a message: number type, sizes and strides of each tensor. The
// sender sends it once per transfer; from then on receives are posted into
// buffers of that layout before anything arrives.
//
// Messages are in memory of the host, unless they go over a direct link
// (link_messages.h). A device copies what it sends into pinned
// memory, and what it receives from there, in its own order: no thread waits
// for it.

#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pipewright/base/ids.h"
#include "pipewright/runtime/tensors.h"

namespace pipewright {

struct TensorLayout {
  bool is_defined = false;
  at::ScalarType type = at::kFloat;
  std::vector<std::int64_t> sizes, strides;
  std::size_t bytes = 0;
  auto operator<=>(const TensorLayout&) const = default;
};
using MessageLayout = std::vector<std::vector<TensorLayout>>;

// Passes when a device has made the copies that it was asked for. Null: it has.
using CopiesEvent = std::shared_ptr<const c10::Event>;

// Tensors as they are sent, once the event has passed: in memory of the host,
// without gaps. Strides are kept where possible, so that kernels on the
// receiver take the same path.
CopiesEvent as_sent(const Values& values, Values& sent);
// The same tensors on a device, for a direct link.
void on_device(const Values& values, at::Device place, Values& sent);

// The layout of values that are sent like this, and whether it is this one.
MessageLayout layout_of(const Values& sent);
bool has_layout(const Values& sent, const MessageLayout& layout);

std::string packed(const MessageLayout& layout);
MessageLayout unpacked_layout(std::string_view bytes);

// Which gradient a tensor is.
struct ParameterUse {
  ParameterId parameter;
  LayerId layer;
  bool operator==(const ParameterUse&) const = default;
};
using ParameterUses = std::vector<ParameterUse>;

// What all messages of a transfer or of a reduction have in common.
struct MessageForm {
  MessageLayout layout;
  ParameterUses uses;  // of a reduction
};
std::string packed(const MessageForm& form);
MessageForm unpacked_form(std::string_view bytes);

// A tensor to receive into, for a worker whose tensors are at `place`; and,
// once it has arrived, the tensor that was sent, there.
at::Tensor buffer_of(const TensorLayout& layout, at::Device place);
at::Tensor as_received(at::Tensor buffer, at::Device place);

}  // namespace pipewright
