// Goes through what a worker did once more, from the journal: each op of work
// with its start and end, each send with its time. For spans and memory.

#pragma once

#include <cstdint>

#include "pipewright/simulate/engine/journal.h"
#include "pipewright/simulate/engine/timed_code.h"

namespace pipewright {

// Where in the program an op was executed.
struct ReplayPoint {
  int section = kPrologue;
  std::int32_t base[2] = {0, 0};  // by KeyBase

  std::int32_t key(std::int32_t from_base, KeyBase which) const {
    return from_base + base[static_cast<int>(which)];
  }
};

// Calls on_work(point, op, start, end) and on_send(point, op, time), in order.
template <typename OnWork, typename OnSend>
void replay(const TimedCode& code, const Journal& journal, std::size_t w,
            OnWork on_work, OnSend on_send) {
  const TimedWorker& worker = code.workers[w];
  const double* next_start = journal.starts[w].data();
  double clock = 0;
  for (int s = 0; s < 3; ++s)
    for (int r = 0; r < (s == kBody ? journal.repetitions : 1); ++r) {
      const int repetition = s == kPrologue ? 0
                             : s == kBody   ? r
                                            : journal.repetitions;
      const ReplayPoint point{
          s, {repetition * code.program->num_microbatches, repetition}};
      for (std::int32_t i = worker.begin[s]; i < worker.begin[s + 1]; ++i) {
        const Op& op = code.ops[i];
        if (op.code == OpCode::Work) {
          const double start = *next_start++;
          clock = start + code.seconds(op);
          on_work(point, op, start, clock);
        } else if (op.code == OpCode::Send || op.code == OpCode::Stream) {
          on_send(point, op, clock);
          clock += code.seconds(op);
        }
      }
    }
}

}  // namespace pipewright
