// Which launcher started this process, from its environment. For builds with
// and without MPI.

#pragma once

#include <string>

#include "pipewright/base/result.h"

namespace pipewright {

// Whether it was one of MPI: mpirun, or srun with PMI or PMIx.
bool is_launched_by_mpi();
// The rank that the launcher gave this process; 0 without a launcher.
int rank_of_launcher();
// How many ranks it starts; 0 where it does not say.
int num_ranks_of_launcher();
// The same text for all ranks of one start, and another for the next start.
std::string start_of_launcher();

// Fails with BadConfiguration where srun started several tasks without MPI:
// each would train alone, into the same folder.
Result<void> check_launcher();

}  // namespace pipewright
