// Links between processes of one host: the sender copies tensors into memory of
// its GPU that the receiver may read, and the receiver copies them from there.
// Which copy has been made the GPUs tell each other by events.

#pragma once

#include <memory>

#include "pipewright/runtime/direct_link.h"

namespace pipewright {

std::shared_ptr<LinkKind> ipc_links();

}  // namespace pipewright
