// On-chip memory or DDR: the FPGA tier rule of BaPipe.
//
// A stage whose weights and features fit on chip computes at the full rate;
// otherwise DDR limits it. What fits depends on the stage and on the
// microbatches in flight, so only a planner can tell. A profile has two tables
// for such a kind: "KIND" with everything in DDR, which is the safe default,
// and "KIND/on-chip".

#pragma once

#include <string>

#include "pipewright/cluster/cluster.h"
#include "pipewright/profile/profile.h"

namespace pipewright {

std::string on_chip_table(const std::string& kind);  // "VCU118/on-chip"

// Whether `held` bytes (weights, gradients, features in flight) stay on chip.
bool fits_on_chip(const DeviceKind& kind, Bytes held);

// times_at() with the table for a stage of `held` bytes. A kind without on-chip
// memory and a profile without the second table have only one.
Result<std::vector<LayerTimes>> times_on(const Profile& profile,
                                         const DeviceKind& kind, int microbatch,
                                         Bytes held,
                                         Outside outside = Outside::Refuse);

}  // namespace pipewright
