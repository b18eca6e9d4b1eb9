// How ranks without MPI find and connect to each other: at the address that
// their launcher gives all of them there is a store of LibTorch (TCPStore),
// where each says on which port it listens.

#pragma once

#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/base/units.h"
#include "pipewright/runtime/channels/launcher.h"
#include "pipewright/runtime/channels/rank_network.h"
#include "pipewright/runtime/ranks/sockets.h"

namespace pipewright {

struct RankConnections {
  std::vector<Socket> sockets;  // by rank; that of this rank is not open
  HostRanks on_host;
};

// Every rank calls it. Fails with InUse, as a rank that is missing, where the
// store or a rank cannot be reached within the limit.
Result<RankConnections> meet(const MeetingPlace& place, Seconds limit);

}  // namespace pipewright
