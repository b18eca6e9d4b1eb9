// Which transfers may overlap the action that makes what they carry.
//
// A device that streams (DeviceKind::execution) sends a tensor while it is
// being made. What a program must say for that is that a Send belongs to the
// compute action before it: lowering puts each Send there. A Send that stands
// elsewhere, after other work or after a Reduce, hands over finished tensors.

#pragma once

#include <cstddef>
#include <span>

#include "pipewright/plan/program/program.h"

namespace pipewright {

// Whether the compute action, or what it is joined with, right before
// actions[send] makes what that Send's transfer carries. `actions` is a section
// of a worker, or a whole run of one. Never true for weights.
bool may_stream(const Program& program, std::span<const Action> actions,
                std::size_t send);

}  // namespace pipewright
