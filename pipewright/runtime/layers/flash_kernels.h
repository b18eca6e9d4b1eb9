// Attention that keeps its output and the logarithm of each row's sum: by
// ATen's kernel that never writes the scores down, where there is one (cores,
// and GPUs in 16 bit without a mask); elsewhere by products.

#pragma once

#include <utility>

#include "pipewright/runtime/layers/attention_tensors.h"

namespace pipewright {

struct FlashSettings {
  bool causal = false;
  double scale = 1;
  // Added to the scores where defined, or true where they stay.
  at::Tensor mask = {};
  // Queries x keys on the tensors' device, true where causal attention leaves
  // something out; made where it is needed and undefined.
  at::Tensor future = {};
};

// Whether `future` is read.
bool needs_future(const FlashSettings& settings, const at::Tensor& query);

// Output and sums. All tensors here are samples x heads x positions x features,
// and lie in memory with positions before heads.
std::pair<at::Tensor, at::Tensor> flash_attention(
    const AttentionTensors& heads, const FlashSettings& settings);

AttentionTensors flash_gradients(const AttentionTensors& heads,
                                 const at::Tensor& output,
                                 const at::Tensor& sums,
                                 const at::Tensor& of_output,
                                 const FlashSettings& settings);

}  // namespace pipewright
