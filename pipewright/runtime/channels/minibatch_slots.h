// What a channel keeps of a reduction for each minibatch that is under way.
// Minibatches use the slots in turn, so that the lists in a slot soon have the
// memory that they need and no more is allocated.

#pragma once

#include <cstddef>
#include <deque>

#include "pipewright/base/ids.h"

namespace pipewright {

// A Slot names the first microbatch of its minibatch in `microbatch`, and sets
// that to none when it is free again. Slots do not move in memory.
template <class Slot>
class MinibatchSlots {
 public:
  // The slot of the minibatch that starts with `microbatch`.
  Slot& of(MicrobatchId microbatch, int num_microbatches) {
    for (Slot& used : slots_)
      if (used.microbatch == microbatch) return used;
    Slot& slot =
        free_slot(microbatch.index() / num_microbatches % slots_.size());
    slot.microbatch = microbatch;
    return slot;
  }

 private:
  Slot& free_slot(std::size_t first) {
    for (std::size_t i = 0; i < slots_.size(); ++i)
      if (Slot& next = slots_[(first + i) % slots_.size()];
          next.microbatch.is_none())
        return next;
    return slots_.emplace_back();
  }

  // Two: the next minibatch may contribute before all have read this one.
  std::deque<Slot> slots_ = std::deque<Slot>(2);
};

}  // namespace pipewright
