// MPI's header, and its errors as exceptions. For channels/ alone.

#pragma once

// MPI's old C++ interface, which we do not use, does not compile everywhere.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <stdexcept>
#include <string>

namespace pipewright {

inline void check_mpi(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw std::runtime_error(std::string(what) + ": " +
                           std::string(text, length));
}

}  // namespace pipewright
