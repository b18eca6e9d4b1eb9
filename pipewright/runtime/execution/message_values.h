// What a transfer between workers carries, out of its sender's values.

#pragma once

#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/execution/network.h"
#include "pipewright/runtime/execution/value_store.h"

namespace pipewright {

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
