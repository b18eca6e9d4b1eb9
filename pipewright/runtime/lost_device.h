// Which exceptions mean that a device has failed.

#pragma once

#include <exception>
#include <optional>

#include "pipewright/base/error.h"

namespace pipewright {

// WorkerLost, with what the device said, if this is an error of a GPU or of a
// library on it. Not of its memory: see out_of_memory.h.
std::optional<Error> lost_device(const std::exception& exception);

}  // namespace pipewright
