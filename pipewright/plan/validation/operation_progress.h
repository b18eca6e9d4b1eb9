// What a stage on a worker has done with a microbatch, in bits. For
// run_check.cc alone.

#pragma once

#include <cstdint>

#include "pipewright/plan/program/program.h"

namespace pipewright {

enum Done : std::uint8_t {
  kForward = 1,
  kRecompute = 2,
  kBackward = 4,  // B or I: the gradient has gone on
  kWeight = 8,    // B or W: the weight gradient is there
};

inline std::uint8_t bits(ActionKind kind) {
  switch (kind) {
    case ActionKind::Forward:
      return kForward;
    case ActionKind::Recompute:
      return kRecompute;
    case ActionKind::Backward:
      return kBackward | kWeight;
    case ActionKind::BackwardInput:
      return kBackward;
    default:
      return kWeight;
  }
}

}  // namespace pipewright
