// Exceptions of LibTorch, CUDA, NCCL and the standard library that mean that
// memory is exhausted, of this machine or of a GPU, as an error with numbers
// and advice.

#pragma once

#include <exception>
#include <optional>

#include "pipewright/base/error.h"

namespace pipewright {

// OutOfMemory; nothing for any other exception.
std::optional<Error> out_of_memory(const std::exception& exception);

}  // namespace pipewright
