// The cores of the machine this runs on, as a device kind named "cpu".
//
// Its figures are measured once, in a few milliseconds, and rounded to two
// digits so that two runs on a quiet machine agree.

#pragma once

#include "pipewright/cluster/cluster.h"

namespace pipewright {

int num_cores();

// One core of several: peak is what independent multiply-adds in registers
// reach, achievable 0.7 of it (what blocked matrix kernels reach of that), and
// its memory an equal share of the machine's among `num_devices`.
DeviceKind this_machine_core(int num_devices);

}  // namespace pipewright
