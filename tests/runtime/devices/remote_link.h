// Links between two processes for the device of tests (remote_device.h). As
// with NCCL, tensors arrive in the order in which they were sent, and are read
// from the sender's memory late: when the other end receives them.

#pragma once

#include "pipewright/runtime/direct_link.h"

namespace pipewright::testing {

enum class RemoteLinks {
  None,
  Working,
  FirstBroken  // of three kinds the receiver cannot prepare the first, nor open
               // the second
};
// Those that devices of tests have from now on.
void use_remote_links(RemoteLinks links);

// How many tensors have been received over such links, by this process.
int num_linked_tensors();

}  // namespace pipewright::testing
