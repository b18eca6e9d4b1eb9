// Ranks that talk over TCP, each pair over a connection of its own: for
// launchers that are not MPI's (torchrun, srun), and builds without MPI.

#pragma once

#include <memory>

#include "pipewright/base/result.h"
#include "pipewright/base/units.h"
#include "pipewright/runtime/channels/launcher.h"
#include "pipewright/runtime/channels/rank_network.h"

namespace pipewright {

// Meets the other ranks at the launcher's address; see rendezvous.h for what
// fails.
Result<std::unique_ptr<RankNetwork>> socket_network(const MeetingPlace& place,
                                                    Seconds limit);

}  // namespace pipewright
