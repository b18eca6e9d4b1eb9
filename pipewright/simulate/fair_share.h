// Max-min fair rates: how transfers divide the resources they share.
//
// Every flow gets as much as its own limit and its resources allow, and nobody
// could get more without taking it from someone who has less.

#pragma once

#include <cstdint>
#include <vector>

#include "pipewright/cluster/cluster.h"

namespace pipewright {

struct Flow {
  double limit = 0;  // bytes per second of its own link; may be infinite
  const std::vector<Link::Use>* uses = nullptr;
  double rate = 0;  // the answer
};

// Sets the rate of every flow. A full-duplex resource has its bandwidth in each
// direction, a half-duplex one in both together. A flow that uses one resource
// in one direction twice is counted once there.
void share_fairly(std::vector<Flow*>& flows,
                  const std::vector<SharedResource>& resources);

}  // namespace pipewright
