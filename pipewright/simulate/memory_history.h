// What each worker's memory held over time, from the journal of an execution.
//
// A worker's own ops allocate when they start and free when they end; what is
// sent turns from an activation into a buffer until it has arrived; what
// arrives is a buffer from the moment it is carried until its last reader ends,
// who may keep a part.

#pragma once

#include <cstdint>
#include <vector>

#include "pipewright/base/units.h"
#include "pipewright/simulate/journal.h"
#include "pipewright/simulate/timed_code.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright {

struct MemoryHistory {
  Bytes activations, buffers;  // at the peak
  Seconds peak_at;
  std::vector<MemoryPoint> points;
};

class MemoryHistories {
 public:
  // Both must stay.
  MemoryHistories(const TimedCode& code, const Journal& journal);

  // Beside what changes, `constant` is held all the time. Points only if asked
  // for.
  MemoryHistory of_worker(std::size_t w, Bytes constant, bool keep_points);

 private:
  // What memory needs to know of a transfer, near together.
  struct TransferMemory {
    std::int64_t freed_by_sender, arrives, retained;
  };
  // Of a message that several actions read.
  struct Readers {
    std::int32_t key, left;
  };
  class Course;

  bool is_used_up(std::int32_t transfer, std::int32_t key);

  const TimedCode& code_;
  const Journal& journal_;
  std::vector<TransferMemory> transfers_;  // as in Program::transfers
  std::vector<bool> leaves_, arrives_;     // per channel: bytes, with some
  std::vector<Readers> readers_;           // per slot; empty if all have one
};

}  // namespace pipewright
