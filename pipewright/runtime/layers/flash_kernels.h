// Attention that keeps its output and the logarithm of each row's sum: by
// ATen's kernel that never writes the scores down, where there is one (cores,
// and GPUs in 16 bit without a mask); elsewhere by products.

#pragma once

#include <cstdint>
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
  // sample_starts() on the tensors' device. Where undefined, gradients take
  // longer on GPUs.
  at::Tensor starts = {};
};

// Whether `future`, or `starts`, is read.
bool needs_future(const FlashSettings& settings, const at::Tensor& query);
bool needs_starts(const FlashSettings& settings, const at::Tensor& query);

// LibTorch's deterministic kernel adds up the gradient of the queries in parts,
// as many as it needs to occupy every multiprocessor, but fills no more than
// there are blocks of keys: the others are cleared and added in vain. Empty
// samples beside the real ones make the parts fewer. How many: none where no
// part is in vain.
int num_empty_samples(std::int64_t samples, std::int64_t heads,
                      std::int64_t positions, int num_multiprocessors);
// Where samples of so many positions start, after the most that are empty.
at::Tensor sample_starts(std::int64_t positions);

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
