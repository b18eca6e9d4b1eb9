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
  std::vector<int>
      ranks;  // in MPI_COMM_WORLD, ascending; those of comm: 0, 1..
  int place_of(int rank) const;
};

// Groups are made once and stay until free().
class MpiGroups {
 public:
  // The communicator outlives the groups.
  explicit MpiGroups(MPI_Comm world) : world_(world) {}

  // The group of these ranks; only members hold a communicator. Every rank asks
  // for the same groups in the same order: members alone wait for each other,
  // so that no circle of waiting can come about. Another `number` gives another
  // communicator to the same ranks.
  const MpiGroup& group(const std::vector<int>& ranks, int number = 0);

  void free();

 private:
  MPI_Comm world_;
  std::map<std::pair<std::vector<int>, int>, MpiGroup> groups_;
};

}  // namespace pipewright
