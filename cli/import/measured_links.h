// The cluster of a plan with the rates that the plan's source measured.
//
// Galvatron describes no machines, so the cluster is the user's (--on), but it
// measured sums of gradients and messages on so many hosts of so many GPUs. On
// such a cluster its rates take the place of the user's: of links between a
// stage's replicas for sums, of links between stages for messages. Latencies
// stay. What a file name does not say of machines is not used.

#pragma once

#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/cluster/cluster.h"
#include "pipewright/profile/formats/importer.h"

namespace pipewright::cli {

struct MeasuredLinks {
  Cluster cluster;
  std::vector<std::string> notes;  // which rates are used, which are not
};

// The stages take the cluster's devices in its order, each as many as it has
// replicas.
Result<MeasuredLinks> with_measured_rates(
    const Cluster& given, const std::vector<PublishedStage>& stages,
    const std::vector<BandwidthTable>& tables);

}  // namespace pipewright::cli
