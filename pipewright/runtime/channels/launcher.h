// What started this process, as its environment says. For builds with and
// without MPI.

#pragma once

#include "pipewright/base/result.h"

namespace pipewright {

// Whether a launcher of MPI did: mpirun, or srun with PMI or PMIx.
bool is_launched_by_mpi();
// The rank that the launcher gave it; 0 without one.
int rank_of_launcher();

// Fails with BadConfiguration where srun started several tasks that MPI cannot
// bring together: each would train alone, into the same folder.
Result<void> check_launcher();

}  // namespace pipewright
