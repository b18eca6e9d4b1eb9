// What a worker's memory consists of.

#pragma once

#include <string>

#include "pipewright/base/ids.h"
#include "pipewright/base/units.h"
#include "pipewright/plan/program/program.h"

namespace pipewright {

struct MemoryUse {
  Bytes weights;  // all versions held
  Bytes gradients;
  Bytes optimizer;
  Bytes activations;  // saved for backward
  Bytes buffers;      // transfers arriving, waiting, or leaving
  // What the device holds beyond the program; known where its kind is.
  Bytes base;           // context, libraries, communication buffers
  Bytes fragmentation;  // of the allocator
  Bytes of_program() const {
    return weights + gradients + optimizer + activations + buffers;
  }
  Bytes total() const { return of_program() + base + fragmentation; }
  bool operator==(const MemoryUse&) const = default;
};

// What a worker holds from the first action of a run to the last.
MemoryUse constant_memory(const Program& program, WorkerId worker);

// "weights 2 GB, gradients 2 GB, activations 1.5 GB": what is not zero.
std::string to_text(const MemoryUse& use);

}  // namespace pipewright
