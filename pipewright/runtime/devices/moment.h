// A point in the work of a device, which others can wait for.

#pragma once

#include <memory>

namespace pipewright {

// All that the device was given until then.
class Moment {
 public:
  virtual ~Moment() = default;
  virtual bool has_passed() const = 0;
  virtual void wait() const = 0;  // blocks the calling thread
};
// Null: it has passed, as always on a device that computes at once.
using MomentPointer = std::shared_ptr<const Moment>;

}  // namespace pipewright
