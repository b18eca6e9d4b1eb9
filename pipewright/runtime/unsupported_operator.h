// An operator that the device at hand cannot run: to start again helps nobody.

#pragma once

#include <exception>
#include <optional>
#include <stdexcept>
#include <string>

#include "pipewright/base/error.h"

namespace pipewright {

class UnsupportedOperator : public std::runtime_error {
 public:
  UnsupportedOperator(const std::string& message, std::string hint)
      : std::runtime_error(message), hint_(std::move(hint)) {}
  const std::string& hint() const { return hint_; }

 private:
  std::string hint_;
};

// BadConfiguration for one of these, and for LibTorch's exception about an
// operator that has no kernel whose bits are always the same; nothing for any
// other exception.
std::optional<Error> unsupported_operator(const std::exception& exception);

}  // namespace pipewright
