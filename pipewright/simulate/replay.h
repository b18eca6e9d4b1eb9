// Goes through what a worker did once more, from the journal: each op of work
// with its start and end, each send with its moment. For spans and memory.

#pragma once

#include <cstdint>

#include "pipewright/base/index.h"
#include "pipewright/simulate/journal.h"
#include "pipewright/simulate/timed_code.h"

namespace pipewright {

// Where in the program an op was executed.
struct Turn {
  int section = 0;                // prologue, body, epilogue
  std::int32_t base[2] = {0, 0};  // by KeyBase
};

// Calls work(turn, op, start, end) and send(turn, op, time), in order.
template <typename OnWork, typename OnSend>
void replay(const TimedCode& code, const Journal& journal, std::size_t w,
            OnWork work, OnSend send) {
  const TimedWorker& worker = code.workers[w];
  const double* next_start = journal.starts[w].data();
  double clock = 0;
  for (int s = 0; s < 3; ++s)
    for (int r = 0; r < (s == 1 ? journal.repetitions : 1); ++r) {
      const int repetition = s == 0 ? 0 : s == 1 ? r : journal.repetitions;
      const Turn turn{
          s, {repetition * code.program->num_microbatches, repetition}};
      for (std::int32_t i = worker.begin[s]; i < worker.begin[s + 1]; ++i) {
        const Op& op = code.ops[at(i)];
        if (op.code == OpCode::Work) {
          const double start = *next_start++;
          clock = start + code.seconds(op);
          work(turn, op, start, clock);
        } else if (op.code == OpCode::Send) {
          send(turn, op, clock);
          clock += code.seconds(op);
        }
      }
    }
}

}  // namespace pipewright
