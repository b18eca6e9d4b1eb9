// Communicators of groups; see mpi_group.h.

#include "pipewright/runtime/channels/mpi_group.h"

#include <algorithm>

namespace pipewright {

int MpiGroup::place_of(int rank) const {
  return static_cast<int>(std::lower_bound(ranks.begin(), ranks.end(), rank) -
                          ranks.begin());
}

const MpiGroup& MpiGroups::group(const std::vector<int>& ranks, int number) {
  const auto [at, is_new] = groups_.try_emplace({ranks, number});
  MpiGroup& group = at->second;
  if (!is_new) return group;
  group.ranks = ranks;
  int me = 0;
  MPI_Comm_rank(world_, &me);
  if (!std::binary_search(ranks.begin(), ranks.end(), me)) return group;
  MPI_Group all = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
  MPI_Comm_group(world_, &all);
  MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &members);
  // The tag tells apart groups that are created at the same time.
  const auto tag = static_cast<int>(groups_.size());
  check_mpi(MPI_Comm_create_group(world_, members, tag, &group.comm),
            "MPI_Comm_create_group");
  MPI_Comm_set_errhandler(group.comm, MPI_ERRORS_RETURN);
  MPI_Group_free(&members);
  MPI_Group_free(&all);
  return group;
}

void MpiGroups::free() {
  for (auto& [key, group] : groups_)
    if (group.comm != MPI_COMM_NULL) MPI_Comm_free(&group.comm);
  groups_.clear();
}

}  // namespace pipewright
