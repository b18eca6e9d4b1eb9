// Counts messages between workers of one process as memory of the worker that
// receives them: from the moment that a message has been sent and its receive
// has been posted. A tensor that the sender still uses stays the sender's
// memory. Over MPI nothing is handed over, and a receive's buffer is allocated
// by the worker that receives.

#pragma once

#include <memory>
#include <vector>

#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/channels/channel.h"
#include "pipewright/runtime/devices/worker_device.h"

namespace pipewright {

// Wraps the channels of one run, one per worker, and changes nothing about what
// they do. The program and the workers' devices must outlive the result.
std::vector<std::unique_ptr<Channel>> counted_channels(
    std::vector<std::unique_ptr<Channel>> channels, const Program& program,
    const std::vector<WorkerDevice*>& devices);

}  // namespace pipewright
