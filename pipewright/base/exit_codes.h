// Errors of training only; the value is the exit code, as in error.h.

#pragma once

#include "pipewright/base/error.h"

namespace pipewright {

inline constexpr ErrorCode kInUse{69};        // another process has the folder
inline constexpr ErrorCode kOutOfMemory{71};  // of this machine

}  // namespace pipewright
