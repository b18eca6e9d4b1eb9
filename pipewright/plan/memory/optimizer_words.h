// What an optimizer keeps beside each weight, in words of the weight's size.
// Planners and simulator count this memory, the runtime's optimizers have it.

#pragma once

namespace pipewright {

constexpr int kSgdWords = 0;
constexpr int kMomentumWords = 1;  // SGD with momentum: the velocity
constexpr int kAdamWords = 2;      // and AdamW: both moments

}  // namespace pipewright
