// A plan's stages in a line: for `rehearse` and `train --elastic`, which name
// the devices that training goes on with. A whole host is named once.

#pragma once

#include <string>
#include <vector>

#include "pipewright/cluster/cluster.h"
#include "pipewright/plan/plan.h"

namespace pipewright::cli {

// "host0..2+host3/V100.0": hosts with all their devices, and devices of others.
// Three or more names with the same text and consecutive numbers at their ends
// are "FIRST..NUMBER". The devices ascend.
std::string devices_text(const std::vector<DeviceId>& devices,
                         const Cluster& cluster);

// "layers 0-4+9 on host0, 5-8 (3 buckets) on host1+host2": stages on the same
// devices together, each with its number of buckets. The plan's devices are in
// this cluster. A long text is replaced by numbers of stages and replicas.
std::string stages_text(const Plan& plan, const Cluster& cluster);

}  // namespace pipewright::cli
