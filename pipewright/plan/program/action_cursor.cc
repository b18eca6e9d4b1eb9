#include "pipewright/plan/program/action_cursor.h"

#include <algorithm>

namespace pipewright {

ActionCursor::ActionCursor(const Program& program, WorkerId worker,
                           int repetitions)
    : worker_(&program.workers[worker.index()]),
      num_microbatches_(program.num_microbatches),
      repetitions_(repetitions) {
  skip_empty();
}

const std::vector<Action>& ActionCursor::list() const {
  if (section_ == 0) return worker_->prologue;
  return section_ == 1 ? worker_->body : worker_->epilogue;
}

Action ActionCursor::action() const {
  Action action = list()[at_];
  const int base = section_ == 2 ? repetitions_ : repetition_;
  action.microbatch += base * num_microbatches_;
  action.version = std::max(0, action.version + base);
  return action;
}

void ActionCursor::advance() {
  ++at_;
  ++position_;
  skip_empty();
}

void ActionCursor::skip_empty() {
  while (section_ < 3 && at_ >= list().size()) {
    at_ = 0;
    const bool again =
        section_ == 1 && !list().empty() && repetition_ + 1 < repetitions_;
    if (again) {
      ++repetition_;
      continue;
    }
    repetition_ = 0;
    ++section_;
    if (section_ == 1 && repetitions_ == 0) ++section_;
  }
}

}  // namespace pipewright
