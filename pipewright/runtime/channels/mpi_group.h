// Ranks that add up gradients together, with a communicator of their own. For
// channels/mpi_*.cc alone; what they add up is not known here.

#pragma once

#include <map>
#include <utility>
#include <vector>

#include "pipewright/runtime/channels/mpi_include.h"

namespace pipewright {

struct MpiGroup {
  MPI_Comm comm = MPI_COMM_NULL;
  // Ascending, as MPI_COMM_WORLD numbers them; in `comm` they are 0, 1, ...
  std::vector<int> ranks;

  int place_of(int rank) const;  // its number in `comm`
};

// Creates each group once and keeps it until free().
class MpiGroups {
 public:
  // The communicator must outlive the groups.
  explicit MpiGroups(MPI_Comm world) : world_(world) {}

  // The group of these ranks; only members have a communicator. Every rank asks
  // for the same groups in the same order. Only members wait for each other, so
  // ranks cannot deadlock here. Another `number` gives the same ranks another
  // communicator.
  const MpiGroup& group(const std::vector<int>& ranks, int number = 0);

  void free();

 private:
  MPI_Comm world_;
  std::map<std::pair<std::vector<int>, int>, MpiGroup> groups_;
};

}  // namespace pipewright
