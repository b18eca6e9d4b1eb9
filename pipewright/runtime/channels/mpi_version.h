// What this MPI is and can. No type of MPI or LibTorch is seen here.

#pragma once

#include <string>

namespace pipewright {

// "Open MPI v4.1.4", or "none".
std::string mpi_version();
// "MPI_THREAD_MULTIPLE", as training needs it, or less; "unknown" where MPI
// does not start. Starts and ends MPI, here or, without a launcher, in a
// process of its own: not beside an MpiSession.
std::string mpi_thread_level();

}  // namespace pipewright
