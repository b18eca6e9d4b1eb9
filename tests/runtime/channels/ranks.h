// The ranks that a test under mpirun runs on.

#pragma once

#include "pipewright/runtime/channels/mpi_transport.h"

namespace pipewright::testing {

MpiSession& session();

}  // namespace pipewright::testing
