// Ranks that talk over MPI. No type of MPI is seen here; a build without MPI
// has no_mpi.cc instead.

#pragma once

#include <memory>

#include "pipewright/base/result.h"
#include "pipewright/runtime/channels/rank_network.h"

namespace pipewright {

// MPI itself, from its start to its end: once per process. Fails with
// BadConfiguration without MPI, or with one that does not allow calls from
// several threads.
Result<std::unique_ptr<RankNetwork>> mpi_network();

}  // namespace pipewright
