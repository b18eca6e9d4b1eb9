// The answers of a build without MPI; see mpi_transport.h.

#include <cstdlib>

#include "pipewright/base/check.h"
#include "pipewright/runtime/channels/mpi_transport.h"

namespace pipewright {

bool is_launched_by_mpi() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMIX_RANK"})
    if (std::getenv(name) != nullptr) return true;
  return false;
}

std::string mpi_version() { return "none"; }

Result<std::unique_ptr<MpiSession>> MpiSession::start() {
  return bad_configuration(
      "started by mpirun or srun, but this build is without MPI",
      "install Open MPI and build again, or start without a launcher: all "
      "workers then run in one process");
}

MpiSession::~MpiSession() = default;

std::unique_ptr<Transport> MpiSession::connect(const MpiOptions&) {
  PIPEWRIGHT_CHECK(false, "no session without MPI");
}

}  // namespace pipewright
