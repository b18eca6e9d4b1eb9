#include "pipewright/simulate/code_writer.h"

#include <algorithm>
#include <bit>

#include "pipewright/base/check.h"
#include "pipewright/base/index.h"

namespace pipewright {
std::int32_t KeyRange::slots(int per_repetition) const {
  if (made == 0 || read_from == std::numeric_limits<std::int32_t>::max())
    return 1;
  const std::int64_t span =
      std::max<std::int64_t>(std::int64_t{made_until} - read_from, 0) + 1 +
      per_repetition;
  return static_cast<std::int32_t>(
      std::bit_ceil(static_cast<std::uint64_t>(span)));
}

CodeWriter::CodeWriter(TimedCode& code)
    : code_(code), ranges_(code.transfers.size()) {}

void CodeWriter::end_work(Op op) {
  const std::size_t needs = code_.needs.size() - at(op.first_need());
  PIPEWRIGHT_CHECK(needs < 65536, "an action reads too many transfers");
  op.num_needs = static_cast<std::uint16_t>(needs);
  code_.ops.push_back(op);
}

void CodeWriter::add_part(std::int32_t reduction, std::int32_t key,
                          KeyBase base) {
  Op op;
  op.code = OpCode::Reduce;
  op.base = base;
  op.target = reduction;
  op.key = key;
  range(code_.first_reduction + reduction).make(key);
  code_.ops.push_back(op);
}

void CodeWriter::add_send(Op op) {
  op.code = OpCode::Send;
  code_.ops.push_back(op);
}

void CodeWriter::add_receive(Op op) {
  op.code = OpCode::Receive;
  range(op.target).make(op.key);
  code_.ops.push_back(op);
}

std::int32_t CodeWriter::add_cost(const OpCost& cost) {
  code_.op_costs.push_back(cost);
  return static_cast<std::int32_t>(code_.op_costs.size()) - 1;
}

void CodeWriter::place_rings(const TimedCodeOptions& options) {
  std::int32_t next = 0;
  for (std::size_t t = 0; t < code_.transfers.size(); ++t) {
    TimedTransfer& timed = code_.transfers[t];
    const KeyRange& range = ranges_[t];
    const int repetitions = options.runs_once ? 0 : 1;
    const std::int32_t slots =
        range.slots(repetitions * code_.advance_of(timed.base));
    timed.ring = next;
    timed.mask = slots - 1;
    next += slots;
    if (range.made > 0)
      timed.reads =
          static_cast<std::int32_t>((range.read + range.made - 1) / range.made);
  }
  code_.needs.emplace_back();  // so that one behind the last can be looked at
  code_.num_slots = next;
}

}  // namespace pipewright
