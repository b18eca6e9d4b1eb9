// What a build without MPI has instead; see mpi_network.h.

#include "pipewright/runtime/channels/mpi_network.h"
#include "pipewright/runtime/channels/mpi_version.h"

namespace pipewright {

std::string mpi_version() { return "none"; }

std::string mpi_thread_level(bool) { return "none"; }

Result<std::unique_ptr<RankNetwork>> mpi_network() {
  return bad_configuration(
      "started by mpirun or srun, but this build has no MPI",
      "start it by torchrun, or set MASTER_ADDR, MASTER_PORT, RANK and "
      "WORLD_SIZE; without a launcher all workers run in one process");
}

}  // namespace pipewright
