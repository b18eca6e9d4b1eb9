#include "pipewright/runtime/training/not_finite_steps.h"

namespace pipewright {

NotFiniteSteps::Verdict NotFiniteSteps::after(std::int64_t done,
                                              std::int64_t end,
                                              bool can_go_back, bool may_skip) {
  if (policy_ == NotFinitePolicy::Stop || !can_go_back) return {Next::End, ""};
  if (!is_repeated(done)) {
    repeated_until_ = end;
    return {Next::Repeat, ""};
  }
  const std::string why = ", also when it was repeated";
  if (policy_ == NotFinitePolicy::Repeat || !may_skip) return {Next::End, why};
  num_skipped_ = last_skipped_ == done ? num_skipped_ + 1 : 1;
  if (num_skipped_ > kMaxSkipped)
    return {Next::End, why + "; the " + std::to_string(kMaxSkipped) +
                           " steps before were skipped"};
  last_skipped_ = done + 1;
  repeated_until_ = 0;
  return {Next::Skip, why};
}

bool NotFiniteSteps::ends_repetition(std::int64_t done) {
  if (repeated_until_ == 0 || done < repeated_until_) return false;
  repeated_until_ = 0;
  return true;
}

}  // namespace pipewright
