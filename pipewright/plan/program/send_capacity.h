// How many messages a sender may be ahead of its receiver. By its definition a
// program runs with any number of messages under way; memory is bounded only if
// senders wait for receivers, and they must not wait for each other in a
// circle.
//
// Workers are deterministic, also with bounded channels: if one execution gets
// to the end with some capacity per transfer, every execution does. So the
// capacity is what an execution needs in which nobody runs ahead, doubled.

#pragma once

#include <mutex>
#include <vector>

#include "pipewright/plan/program/program.h"

namespace pipewright {

class SendCapacity {
 public:
  // Every transfer has at least this capacity: most programs never need more.
  static constexpr int kMinimum = 64;

  // Messages of a transfer that are usually under way: a worker is rarely
  // further ahead of another.
  static int expected(const Program& program);

  // The program must outlive this object.
  explicit SendCapacity(const Program& program) : program_(program) {}

  // The most messages of a transfer that may be sent and not received. Not for
  // transfers of weights. From any thread.
  int of(TransferId transfer);

 private:
  const Program& program_;
  std::once_flag once_;
  std::vector<int> needed_;
};

// Messages per transfer under way at once in an execution that always moves the
// worker that has done the smallest share of its actions. 0 for transfers of
// weights.
std::vector<int> needed_send_capacity(const Program& program, int repetitions);

// Whether all workers get to the end with at most `capacity` messages of each
// transfer under way. Transfers of weights are not bounded.
bool is_enough(const std::vector<int>& capacity, const Program& program,
               int repetitions);

}  // namespace pipewright
