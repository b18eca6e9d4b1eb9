// Makes calls that change files fail on purpose: this program has its own
// write(), fsync(), rename() and so on, which libraries then use, too.

#pragma once

namespace pipewright::testing {

enum class Mishap {
  None,
  Death,  // the process ends at the call, before it
  NoRoom  // the call answers ENOSPC, and so do all write() calls after it
};

// Counts from now on, and lets it happen at call number `at`, from 1.
void arm(Mishap mishap, int at);
// Calls since arm().
int num_calls();

}  // namespace pipewright::testing
