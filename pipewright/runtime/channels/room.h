// How far a sender may get ahead of a receiver. A program runs with any number
// of messages under way; memory is bounded only if senders wait for receivers,
// and they must not wait for each other in a circle.
//
// A program's workers are deterministic, and so is what they do with bounded
// buffers: if one execution gets by with some room per transfer, every one
// does. Room is what an execution takes in which nobody runs ahead, twice over.

#pragma once

#include <mutex>
#include <vector>

#include "pipewright/plan/program/program.h"

namespace pipewright {

class Room {
 public:
  // Every transfer has this much: most programs never ask for more.
  static constexpr int kLeast = 64;

  // Messages of a transfer that a receiver is behind as a rule: a worker is
  // rarely further ahead of another.
  static int expected(const Program& program);

  // The program outlives it.
  explicit Room(const Program& program) : program_(program) {}

  // Messages of a transfer that may be sent and not received, at most. Not for
  // transfers of weights. From any thread.
  int of(TransferId transfer);

 private:
  const Program& program_;
  std::once_flag once_;
  std::vector<int> needed_;
};

// Messages per transfer under way at once in an execution that always moves the
// worker that has done the least. Of weights nothing is said.
std::vector<int> needed_room(const Program& program, int repetitions);

// Whether all workers get to the end if no more than `room` messages of a
// transfer are under way.
bool gets_by_with(const std::vector<int>& room, const Program& program,
                  int repetitions);

}  // namespace pipewright
