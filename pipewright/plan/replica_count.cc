#include "pipewright/plan/replica_count.h"

#include <string>

namespace pipewright {

Result<void> check_replica_count(std::size_t stage, std::size_t replicas,
                                 Replication replication, int microbatch,
                                 int num_microbatches) {
  const bool split = replication == Replication::Split;
  const int most = split ? microbatch : num_microbatches;
  if (replicas <= static_cast<std::size_t>(most)) return {};
  const std::string counted = std::to_string(replicas) + " replicas cannot ";
  const std::string where = "stage " + std::to_string(stage);
  if (split)
    return malformed(
        counted + "split a microbatch of " + std::to_string(most) + " samples",
        where, "use larger microbatches, or \"rotate\"");
  return malformed(counted + "take turns at " + std::to_string(most) +
                       " microbatches a minibatch",
                   where, "use smaller microbatches, or \"split\"");
}

}  // namespace pipewright
