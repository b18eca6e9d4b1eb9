// Links between two processes for the device of tests (remote_device.h). As
// with NCCL, tensors arrive in the order in which they were sent, and are read
// from the sender's memory late: when the other end receives them.

#pragma once

#include "pipewright/runtime/direct_link.h"

namespace pipewright::testing {

// From now on devices of tests have such links, or none.
void use_remote_links(bool are_used);

// How many tensors have been received over such links, by this process.
int num_linked_tensors();

}  // namespace pipewright::testing
