// The cross entropy of rows of logits, and its derivative, for the layers that
// end with it.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace pipewright {

inline constexpr std::int64_t kIgnoreNone = -100;  // no class is ignored

// Log-probabilities become probabilities, less one at the target of each row.
void differentiate(at::Tensor& log_probabilities, const at::Tensor& targets);

// The loss of each row. The logits become their own derivative, as above.
at::Tensor losses_in_place(at::Tensor& logits, const at::Tensor& targets);

}  // namespace pipewright
