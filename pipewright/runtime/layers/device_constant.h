// A tensor that a layer's function has from the start, such as a mask: it is
// made in memory of the host, and copied once to each device that uses it.

#pragma once

#include <ATen/ATen.h>

#include <map>
#include <mutex>
#include <utility>

namespace pipewright {

class DeviceConstant {
 public:
  DeviceConstant() = default;
  explicit DeviceConstant(at::Tensor tensor) : tensor_(std::move(tensor)) {}
  DeviceConstant& operator=(at::Tensor tensor) {
    tensor_ = std::move(tensor);
    return *this;
  }

  bool defined() const { return tensor_.defined(); }
  // From any thread. The first use on a device waits until the copy is there,
  // so that every stream may read it.
  at::Tensor on(const at::Device& device) const {
    if (device.is_cpu()) return tensor_;
    const std::lock_guard lock(mutex_);
    at::Tensor& copy = copies_[device.index()];
    if (!copy.defined()) copy = tensor_.to(device);
    return copy;
  }

 private:
  at::Tensor tensor_;
  mutable std::mutex mutex_;
  mutable std::map<at::DeviceIndex, at::Tensor> copies_;
};

}  // namespace pipewright
