#include "pipewright/simulate/lead.h"

#include "pipewright/base/index.h"

namespace pipewright {
Lead::Lead(int repetitions, int num_workers, CodeWriter& writer,
           TimedCode& code)
    : repetitions_(repetitions), writer_(writer), code_(code) {
  if (repetitions_ > 0)
    signal_ = writer_.add_signal(num_workers, KeyBase::Repetition);
}

void Lead::begin_body() {
  if (repetitions_ == 0) return;
  Op op = writer_.begin_work();
  op.code = OpCode::Hold;
  Need need;
  need.transfer = code_.first_reduction + signal_;
  need.base = KeyBase::Repetition;
  need.key = -repetitions_;
  need.there_until = -1;
  writer_.add_need(need);
  writer_.end_work(op);
}

void Lead::end_body() {
  if (repetitions_ > 0) writer_.add_part(signal_, 0, KeyBase::Repetition);
}

void Lead::bound_unread() {
  if (repetitions_ == 0) return;
  for (const TimedWorker& worker : code_.workers) {
    Op& hold = code_.ops[at(worker.begin[1])];
    const Need lead = code_.needs[at(hold.first_need())];
    hold.key = static_cast<std::int32_t>(code_.needs.size());
    writer_.add_need(lead);
    for (std::int32_t i = worker.begin[1]; i < worker.begin[2]; ++i)
      if (code_.ops[at(i)].code == OpCode::Receive)
        bound_if_unread(code_.ops[at(i)]);
    hold.num_needs =
        static_cast<std::uint16_t>(code_.needs.size() - at(hold.first_need()));
  }
}

void Lead::bound_if_unread(const Op& receive) {
  KeyRange& range = writer_.range(receive.target);
  if (range.read > 0) return;
  Need need;
  need.transfer = receive.target;
  need.base = receive.base;
  need.key = receive.key - repetitions_ * code_.advance_of(receive.base);
  need.there_until = receive.key - 1;
  writer_.add_need(need);
  range.read = 0;  // by no action
}

}  // namespace pipewright
