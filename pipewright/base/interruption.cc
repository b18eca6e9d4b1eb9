#include "pipewright/base/interruption.h"

namespace pipewright {
namespace {

thread_local const std::function<bool()>* asked = nullptr;

}  // namespace

InterruptionScope::InterruptionScope(const std::function<bool()>& is_over)
    : before_(std::exchange(asked, &is_over)) {}

InterruptionScope::~InterruptionScope() { asked = before_; }

void interruption_point() {
  if (asked != nullptr && (*asked)()) throw Interruption{};
}

}  // namespace pipewright
