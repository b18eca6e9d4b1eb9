#include "pipewright/simulate/code_writer.h"

#include <algorithm>
#include <bit>

#include "pipewright/base/check.h"
#include "pipewright/base/index.h"

namespace pipewright {
void KeyRange::make(std::int32_t key) {
  made_until = std::max(made_until, key);
  ++made;
}

void KeyRange::take(std::int32_t key) {
  read_from = std::min(read_from, key);
  ++read;
}

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

std::int32_t CodeWriter::add_signal(int parts, KeyBase base) {
  TimedTransfer timed;
  timed.channel = static_cast<std::int32_t>(code_.channels.size());
  timed.base = base;
  timed.parts = parts;
  code_.transfers.push_back(timed);
  code_.channels.push_back({-1, -1, TransferKind::Weights, -1});
  ranges_.emplace_back();
  return static_cast<std::int32_t>(code_.transfers.size()) - 1 -
         code_.first_reduction;
}

Op CodeWriter::begin_work() const {
  Op op;
  op.target = static_cast<std::int32_t>(code_.actions.size());
  op.num_actions = 0;
  op.key = static_cast<std::int32_t>(code_.needs.size());
  return op;
}

void CodeWriter::add_need(const Need& need) {
  range(need.transfer).take(need.key);
  code_.needs.push_back(need);
}

void CodeWriter::end_work(Op op, double seconds) {
  const std::size_t needs = code_.needs.size() - at(op.first_need());
  const std::size_t actions = code_.actions.size() - at(op.target);
  PIPEWRIGHT_CHECK(needs < 65536, "an action reads too many transfers");
  PIPEWRIGHT_CHECK(actions < 256, "too many actions are joined");
  op.num_needs = static_cast<std::uint16_t>(needs);
  op.num_actions = static_cast<std::uint8_t>(actions);
  op.duration = duration(seconds);
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

void CodeWriter::add_message(Op op, bool is_send, double blocks) {
  op.code = is_send ? OpCode::Send : OpCode::Receive;
  if (is_send)
    op.duration = duration(blocks);
  else
    range(op.target).make(op.key);
  code_.ops.push_back(op);
}

// Of neighbouring actions every other is alike; few differ in all.
std::int32_t CodeWriter::duration(double seconds) {
  auto& all = code_.durations;
  const std::size_t recent = all.size() < 8 ? 0 : all.size() - 8;
  for (std::size_t i = recent; i < all.size(); ++i)
    if (all[i] == seconds) return static_cast<std::int32_t>(i);
  const auto next = static_cast<std::int32_t>(all.size());
  const auto [known, is_new] = known_durations_.try_emplace(seconds, next);
  if (is_new) all.push_back(seconds);
  return known->second;
}

void CodeWriter::place_rings() {
  std::int32_t next = 0;
  for (std::size_t t = 0; t < code_.transfers.size(); ++t) {
    TimedTransfer& timed = code_.transfers[t];
    const KeyRange& range = ranges_[t];
    const std::int32_t slots = range.slots(code_.advance_of(timed.base));
    timed.ring = next;
    timed.mask = slots - 1;
    timed.read_from = range.read_from;
    next += slots;
    if (range.made > 0)
      timed.reads =
          static_cast<std::int32_t>((range.read + range.made - 1) / range.made);
  }
  code_.needs.emplace_back();  // so that one behind the last can be looked at
  code_.num_slots = next;
}

}  // namespace pipewright
