// Which launcher started this process, from its environment. For builds with
// and without MPI.

#pragma once

#include <string>

#include "pipewright/base/result.h"

namespace pipewright {

enum class Launcher {
  None,
  Mpi,     // mpirun, or srun with PMI or PMIx
  Sockets  // one that says where ranks meet: torchrun, or srun without PMI
};
// Where MPI's launcher also says where ranks meet, a build without MPI uses
// that.
Launcher launcher();
inline bool is_launched() { return launcher() != Launcher::None; }

// The rank that the launcher gave this process; 0 without a launcher.
int rank_of_launcher();
// How many ranks it starts; 0 where it does not say.
int num_ranks_of_launcher();
// The same text for all ranks of one start, and another for the next start.
std::string start_of_launcher();

// Of Launcher::Sockets.
struct MeetingPlace {
  int rank = 0, size = 1;
  std::string address;  // MASTER_ADDR
  int port = 0;         // MASTER_PORT
  // Whether the launcher has a store there; else rank 0 is to have it.
  bool has_store = false;
  // Tells starts that share a store apart.
  std::string start;
};
// Fails with BadConfiguration where a number of the environment is not one.
Result<MeetingPlace> meeting_place();

// Fails with BadConfiguration where srun started several tasks that cannot find
// each other: each would train alone, into the same folder.
Result<void> check_launcher();

}  // namespace pipewright
