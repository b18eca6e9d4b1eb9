// A test that cannot run here says why, and CTest lists its file as skipped,
// unless another test of the file has failed.

#pragma once

#include <iostream>
#include <string>

namespace pipewright::testing {

// The exit code of a program in which a test was skipped and none has failed.
constexpr int kSkippedCode = 77;

inline bool is_any_skipped = false;

inline void skip(const std::string& why) {
  std::cout << "skipped: " << why << std::endl;
  is_any_skipped = true;
}

}  // namespace pipewright::testing
