// A check that can only fail if the program has a bug. It throws Bug with file
// and line, and the program exits with code 70.

#pragma once

#include <stdexcept>
#include <string>

namespace pipewright {

class Bug : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void fail_check(const char* condition, const char* file, int line,
                             const std::string& message);

}  // namespace pipewright

#define PIPEWRIGHT_CHECK(condition, message)                             \
  do {                                                                   \
    if (!(condition)) [[unlikely]]                                       \
      ::pipewright::fail_check(#condition, __FILE__, __LINE__, message); \
  } while (false)
