// What a transfer between workers carries, out of its sender's values.

#pragma once

#include <ATen/ATen.h>

#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/execution/network.h"
#include "pipewright/runtime/execution/value_store.h"

namespace pipewright {

// Bytes of a transfer in a step, or of the samples of one, up to which they are
// small: what they cost is calls, not memory.
inline constexpr std::int64_t kSmallStep = std::int64_t{1} << 20;

// The same memory, which somebody else keeps: a tensor of its own, so that who
// holds it can be counted.
inline at::Tensor borrowed(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  return at::for_blob(tensor.data_ptr(), tensor.sizes())
      .strides(tensor.strides())
      .options(tensor.options())
      .target_device(tensor.device())
      .make_tensor();
}

// A program is made from a profile, which does not say that a layer needs no
// gradient; nothing is sent for it. Keeps the list's memory.
inline void read_message(const Network& network, const Transfer& transfer,
                         MicrobatchId microbatch, const ValueStore& values,
                         Values& message) {
  message.clear();
  for (const Value& value : transfer.values) {
    const bool is_nothing = value.kind == ValueKind::Gradient &&
                            !network.model.needs_gradient(value.layer);
    message.push_back(
        is_nothing ? Tensors()
                   : values.read(value, microbatch,
                                 {transfer.first_sample, transfer.end_sample}));
  }
}

}  // namespace pipewright
