// Keeps workers of an execution together: nobody begins a repetition before all
// is done, and all has arrived, of the one `lead` before. For period.cc, which
// needs executions that come back to where they were.

#pragma once

#include "pipewright/simulate/code_writer.h"

namespace pipewright {

class Lead {
 public:
  // Does nothing if `repetitions` is 0.
  Lead(int repetitions, int num_workers, CodeWriter& writer, TimedCode& code);

  void begin_body();  // of each worker
  void end_body();
  // What nobody reads would fall behind without a bound; so the beginning of a
  // repetition reads it. When all workers are there.
  void bound_unread();

 private:
  void bound_if_unread(const Op& receive);

  const int repetitions_;
  std::int32_t signal_ = -1;
  CodeWriter& writer_;
  TimedCode& code_;
};

}  // namespace pipewright
