// Which MPI this is and which threads it allows. No type of MPI or LibTorch is
// seen here.

#pragma once

#include <string>

namespace pipewright {

// "Open MPI v4.1.4", or "none".
std::string mpi_version();
// "MPI_THREAD_MULTIPLE", which training needs, or less; "unknown" where MPI
// does not start. Starts and ends MPI, in this process if a launcher of MPI
// started it, else in a child: not while there is a RankSession.
std::string mpi_thread_level(bool is_launched);

}  // namespace pipewright
