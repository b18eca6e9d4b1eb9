// A device broken on purpose, to see what happens then; see ranks/injection.h.

#pragma once

#include <cstdint>
#include <functional>

namespace pipewright {

enum class DeviceFault : std::uint8_t {
  Hangs,   // what it was given last never ends
  IsLost,  // every call of it fails
  IsFull,  // it is asked for more memory than it has
};

// Breaks the device that the calling thread, a worker's, computes on.
void break_device(DeviceFault fault);
// Says how. Called once on the thread of each worker.
void use_device_fault(std::function<void(DeviceFault)> breaks);

}  // namespace pipewright
