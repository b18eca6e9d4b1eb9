// Appends ops to TimedCode, and knows afterwards how many slots each transfer
// and reduction needs. For timed_code.cc.

#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "pipewright/simulate/timed_code.h"

namespace pipewright {

// Keys with which something is made and read, relative to the base, and how
// often in the body: what sizes its ring.
struct KeyRange {
  std::int32_t made_until = std::numeric_limits<std::int32_t>::min();
  std::int32_t read_from = std::numeric_limits<std::int32_t>::max();
  std::int64_t made = 0, read = 0;

  void make(std::int32_t key) {
    made_until = std::max(made_until, key);
    ++made;
  }
  void take(std::int32_t key) {
    read_from = std::min(read_from, key);
    ++read;
  }
  // A power of two that no two keys alive at once can clash in: none is made
  // later than the newest made in its repetition, none is read that is older
  // than the oldest read in the repetition before.
  std::int32_t slots(int per_repetition) const;
};

class CodeWriter {
 public:
  // `code` has its transfers and channels.
  explicit CodeWriter(TimedCode& code);

  // Opens an op of Work; what it waits for; closes it.
  Op begin_work() const {
    Op op;
    op.num_actions = 0;
    op.key = static_cast<std::int32_t>(code_.needs.size());
    return op;
  }
  void add_need(const Need& need) {
    range(need.transfer).take(need.key);
    code_.needs.push_back(need);
  }
  void end_work(Op op);

  void add_part(std::int32_t reduction, std::int32_t key, KeyBase base);
  void add_send(Op op);
  void add_receive(Op op);

  std::int32_t add_cost(const OpCost& cost);

  KeyRange& range(std::int32_t transfer) {
    return ranges_[static_cast<std::size_t>(transfer)];
  }
  std::int32_t num_ops() const {
    return static_cast<std::int32_t>(code_.ops.size());
  }

  // When all ops are there.
  void place_rings(const TimedCodeOptions& options);

 private:
  TimedCode& code_;
  std::vector<KeyRange> ranges_;  // as TimedCode::transfers
};

}  // namespace pipewright
