// What each worker's memory held over time, from the journal of an execution.
//
// A worker's own ops allocate when they start and free when they end. What is
// sent turns from an activation into a buffer until it has arrived. What is
// received is a buffer from the time it starts on the link until its last
// reader ends, which may retain a part.

#pragma once

#include <cstdint>
#include <vector>

#include "pipewright/base/units.h"
#include "pipewright/simulate/engine/journal.h"
#include "pipewright/simulate/engine/timed_code.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright {

struct MemoryHistory {
  Bytes activations, buffers;  // at the peak
  Seconds peak_at;
  std::vector<MemoryPoint> points;
};

class MemoryHistories {
 public:
  // Both arguments must outlive this object.
  MemoryHistories(const TimedCode& code, const Journal& journal);

  // `constant` is held all the time, beside what changes.
  MemoryHistory of_worker(WorkerId worker, Bytes constant, bool keep_points);

 private:
  // What memory needs to know of a transfer, close together.
  struct TransferMemory {
    std::int64_t freed_by_sender, received, retained;
  };
  // Of a message that several actions read.
  struct Readers {
    std::int32_t key, left;
  };
  class Tracker;

  bool is_last_read(std::int32_t transfer, std::int32_t key);

  const TimedCode& code_;
  const Journal& journal_;
  std::vector<TransferMemory> transfers_;    // as in Program::transfers
  std::vector<bool> is_sent_, is_received_;  // per channel: bytes, not 0
  std::vector<Readers> readers_;  // per slot; empty if one action reads each
};

}  // namespace pipewright
