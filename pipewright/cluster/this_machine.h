// A core of this machine, as the device kind "cpu".
//
// Its numbers are measured once, in a few milliseconds, and rounded to two
// digits so that two runs on an idle machine agree.

#pragma once

#include "pipewright/cluster/cluster.h"

namespace pipewright {

int num_cores();

// Peak is the measured rate of independent multiply-adds in registers;
// achievable is 0.7 of it, as blocked matrix kernels reach; memory is the
// machine's divided by `num_devices`.
DeviceKind this_machine_core(int num_devices);

}  // namespace pipewright
