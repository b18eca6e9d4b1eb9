// Messages between workers of one process whose devices do not compute at once.
// The receiver waits, in its own stream, for the moment at which the message
// was sent, and copies it into its own memory. No thread waits for a kernel.
//
// What was sent stays its sender's memory until the receiver has copied it: the
// sender may reuse the bytes only after that moment, which its stream waits for
// a few messages later at the latest.
//
// Calls of the driver are dear. So small messages are not copied where the
// receiver can read them: it borrows them, and the next moment at which it
// sends is also that at which it returns those that it has done with. What it
// passes on as it came it returns when it has got it back, so it copies what
// the sender will wait for. A lent message is read where it is, if it can be,
// and returned when the receiver's next step begins. Gradients that were
// contributed to a reduction are kept until the worker contributes to it again.

#pragma once

#include <memory>
#include <vector>

#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/channels/channel.h"
#include "pipewright/runtime/devices/worker_device.h"

namespace pipewright {

// Wraps the channels of one run, one per worker. Where the receiver reads the
// sender's memory and both compute at once, nothing is copied. The program and
// the devices must outlive the result, which must be kept until all devices
// have finished.
std::vector<std::unique_ptr<Channel>> copying_channels(
    std::vector<std::unique_ptr<Channel>> channels, const Program& program,
    const std::vector<WorkerDevice*>& devices);

}  // namespace pipewright
