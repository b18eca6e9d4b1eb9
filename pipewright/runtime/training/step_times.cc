#include "pipewright/runtime/training/step_times.h"

#include <algorithm>

namespace pipewright {

void StepTimes::add(Seconds step, std::int64_t steps, bool is_settled) {
  all_.push_back({step, steps});
  if (is_settled) settled_.push_back(all_.back());
}

std::vector<StepTimes::Piece> StepTimes::counted() const {
  if (!settled_.empty() && settled_.size() < all_.size()) return settled_;
  return {all_.begin() + (all_.size() > 2 ? 1 : 0), all_.end()};
}

Seconds StepTimes::median() const {
  std::vector<Piece> pieces = counted();
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.step < b.step; });
  std::int64_t left = 0;
  for (const Piece& piece : pieces) left += piece.steps;
  left = left / 2 + 1;
  for (const Piece& piece : pieces)
    if ((left -= piece.steps) <= 0) return piece.step;
  return {};
}

}  // namespace pipewright
