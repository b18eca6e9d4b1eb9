// The memory of this process, as Linux counts it.

#pragma once

#include <string>

#include "pipewright/base/units.h"

namespace pipewright {

// A number of /proc/self/status, such as VmRSS or VmHWM; 0 if there is none.
Bytes process_memory(const std::string& key);

// Its peak (VmHWM) is counted from here on; where that cannot be set, it
// includes what was before.
void forget_peak_memory();

}  // namespace pipewright
