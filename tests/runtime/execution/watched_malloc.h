// Who asks for memory: this program has its own malloc(), which libraries and
// operator new use, too.
//
// LibTorch makes an object for every tensor, and that is its business. A call
// is ours if the innermost frame that is not of a mere container or allocator
// (libc, libstdc++, c10) lies in this program.

#pragma once

#include <cstdint>
#include <string>

namespace pipewright::testing {

// Whether calls of this thread are looked at, from now on.
void watch_this_thread(bool on);

struct Allocations {
  std::int64_t ours = 0, others = 0;
  std::string sites;  // of ours: functions of this program, one a line
};
// Since the last time it was asked.
Allocations take_allocations();

}  // namespace pipewright::testing
