// Loaded before a rank (LD_PRELOAD): of the messages that rank BIT_FLIP_RANK
// sends over MPI, number BIT_FLIP arrives with one bit flipped.

#include <stdlib.h>

#include <atomic>
#include <vector>

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

namespace {

long number_of(const char* name) {
  const char* text = ::getenv(name);
  return text == nullptr ? -1 : ::atol(text);
}

const void* as_transported(const void* data, int count) {
  static const long flipped =
      number_of("BIT_FLIP_RANK") == number_of("OMPI_COMM_WORLD_RANK")
          ? number_of("BIT_FLIP")
          : -1;
  static std::atomic<long> sent{0};
  if (count == 0 || sent++ != flipped) return data;
  const auto* bytes = static_cast<const char*>(data);
  static std::vector<char> copy(bytes, bytes + count);
  copy[copy.size() / 2] = static_cast<char>(copy[copy.size() / 2] ^ 0x40);
  return copy.data();
}

}  // namespace

extern "C" {

int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag,
              MPI_Comm comm, MPI_Request* request) {
  return PMPI_Isend(as_transported(data, count), count, type, to, tag, comm,
                    request);
}

int MPI_Issend(const void* data, int count, MPI_Datatype type, int to, int tag,
               MPI_Comm comm, MPI_Request* request) {
  return PMPI_Issend(as_transported(data, count), count, type, to, tag, comm,
                     request);
}

}  // extern "C"
