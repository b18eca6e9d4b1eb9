// What an exception of LibTorch says, without the stack that it appends.

#pragma once

#include <exception>
#include <string>

namespace pipewright {

inline std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

}  // namespace pipewright
