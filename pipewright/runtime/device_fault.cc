#include "pipewright/runtime/device_fault.h"

#include <utility>

#include "pipewright/base/check.h"

namespace pipewright {
namespace {

std::function<void(DeviceFault)>& this_threads() {
  static thread_local std::function<void(DeviceFault)> breaks;
  return breaks;
}

}  // namespace

void break_device(DeviceFault fault) {
  PIPEWRIGHT_CHECK(this_threads(), "a thread without a device");
  this_threads()(fault);
}

void use_device_fault(std::function<void(DeviceFault)> breaks) {
  this_threads() = std::move(breaks);
}

}  // namespace pipewright
