#include "pipewright/runtime/devices/worker_device.h"

#include <ATen/ops/empty.h>

#include <cstdint>
#include <stdexcept>

namespace pipewright {

void WorkerDevice::suffer(DeviceFault fault) {
  switch (fault) {
    case DeviceFault::Hangs:
      for (volatile bool forever = true; forever;) {
      }
      break;
    case DeviceFault::IsLost:
      throw std::runtime_error("the device is lost");
    case DeviceFault::IsFull:  // more than any address space has
      at::empty({std::int64_t{1} << 50},
                at::TensorOptions(place()).dtype(at::kByte));
      break;
  }
}

}  // namespace pipewright
