// Channels between threads of one process: tensors are handed over without a
// copy, under one lock per receiver.

#pragma once

#include <memory>
#include <vector>

#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/channels/channel.h"

namespace pipewright {

// One per worker of the program, connected with each other. The program must
// outlive them.
std::vector<std::unique_ptr<Channel>> in_process_channels(
    const Program& program);

}  // namespace pipewright
