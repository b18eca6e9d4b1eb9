// Links by NCCL, the one that LibTorch has loaded: between GPUs of any hosts.
// Each has a communicator and a stream of its own, so that none waits for
// another.

#pragma once

#include <memory>
#include <string>

#include "pipewright/runtime/direct_link.h"

namespace pipewright {

std::shared_ptr<LinkKind> nccl_links();

// 22809 is version 2.28.9; 0: there is none.
int nccl_version();
std::string nccl_version_text();

}  // namespace pipewright
