// Links between this machine's GPUs, shares and streams of them, measured by
// the size of a message; and the cluster that this machine is.

#pragma once

#include <vector>

#include "pipewright/cluster/cluster.h"

namespace pipewright {

// How long a message of that size took.
struct MessageTime {
  Bytes message;
  Seconds time;
};
// Its latency is the time of the smallest message; larger ones have the rates
// at which they took what is beyond it, and the bandwidth is the highest. None
// takes longer than a larger one. At least two sizes, ascending.
Link link_of(std::vector<MessageTime> times);

// The rates at which a sum of so many devices over that link would take as long
// as they took to copy tensors of those sizes from each of the others, all
// at once: so replicas add up their gradients.
MessageRates collective_rates_of(const std::vector<MessageTime>& times,
                                 int devices, const Link& link);

// The cluster, which is one host, with measured links between its GPUs; others
// stay. Fails with BadConfiguration if it has no two of them, or if the driver
// cannot copy between two.
Result<Cluster> with_measured_links(const Cluster& cluster);

// All GPUs of this machine, with measured links; or its cores, if it has none.
Result<Cluster> this_machine_cluster();

}  // namespace pipewright
