#include "pipewright/runtime/layers/flash_kernels.h"

#include <limits>
#include <optional>

#include "pipewright/runtime/fused_kernels.h"

namespace pipewright {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// Keys of a block of the GPU's kernel, for heads of up to 128 features.
constexpr std::int64_t kKeysPerBlock = 128;
constexpr std::int64_t kMaxEmptySamples = 7, kMaxSamples = 64;

bool is_short(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kBFloat16 ||
         tensor.scalar_type() == at::kHalf;
}
bool has_gpu_kernel(const FlashSettings& settings, const at::Tensor& query) {
  return query.is_cuda() && is_short(query) && !settings.mask.defined();
}
std::optional<at::Tensor> mask_of(const FlashSettings& settings) {
  if (!settings.mask.defined()) return std::nullopt;
  return settings.mask;
}

// As the kernel for cores leaves it: views of what follows rely on it.
at::Tensor by_position(const at::Tensor& heads) {
  return heads.transpose(1, 2).contiguous().transpose(1, 2);
}

// The GPU's kernel takes features of a head in eights; zeros change nothing.
at::Tensor padded(const at::Tensor& heads) {
  const std::int64_t missing = (8 - heads.size(3) % 8) % 8;
  return missing == 0 ? heads : at::constant_pad_nd(heads, {0, missing});
}
at::Tensor unpadded(const at::Tensor& heads, const at::Tensor& like) {
  return heads.narrow(3, 0, like.size(3));
}

at::Tensor future_of(const FlashSettings& settings, const at::Tensor& scores) {
  if (settings.future.defined()) return settings.future;
  return at::ones({scores.size(2), scores.size(3)},
                  scores.options().dtype(at::kBool))
      .triu(1);
}

at::Tensor scores_of(const AttentionTensors& heads,
                     const FlashSettings& settings) {
  at::Tensor scores = heads.query.matmul(heads.key.transpose(2, 3));
  if (is_short(scores)) scores = scores.to(at::kFloat);
  scores.mul_(settings.scale);
  if (settings.causal)
    scores.masked_fill_(future_of(settings, scores), kMinusInfinity);
  if (!settings.mask.defined()) return scores;
  return settings.mask.scalar_type() == at::kBool
             ? scores.masked_fill_(settings.mask.logical_not(), kMinusInfinity)
             : scores.add_(settings.mask);
}

// Zeros in a row of which all is left out, whose sum has no logarithm.
at::Tensor probabilities(const at::Tensor& scores, const at::Tensor& sums,
                         const FlashSettings& settings) {
  const at::Tensor rows = sums.unsqueeze(-1);
  if (!settings.mask.defined()) return scores.sub(rows).exp_();
  return scores.sub(rows.masked_fill(rows.eq(kMinusInfinity), 0)).exp_();
}

AttentionTensors gradients_by_products(const AttentionTensors& heads,
                                       const at::Tensor& output,
                                       const at::Tensor& sums,
                                       const at::Tensor& of_output,
                                       const FlashSettings& settings) {
  const at::ScalarType type = heads.query.scalar_type();
  const at::Tensor used =
      probabilities(scores_of(heads, settings), sums, settings);
  const at::Tensor rows = of_output.mul(output).sum(-1, true);
  const at::Tensor of_scores = of_output.matmul(heads.value.transpose(2, 3))
                                   .sub_(rows)
                                   .mul_(used)
                                   .mul_(settings.scale);
  return {of_scores.matmul(heads.key),
          of_scores.transpose(2, 3).matmul(heads.query),
          used.to(type).transpose(2, 3).matmul(of_output)};
}

int empty_samples_beside(const at::Tensor& query,
                         const FlashSettings& settings) {
  const FusedKernels* device = fused_kernels(query);
  if (!device || !settings.starts.defined() || query.size(0) > kMaxSamples)
    return 0;
  return num_empty_samples(query.size(0), query.size(1), query.size(2),
                           device->num_multiprocessors());
}

// By the GPU's kernel for samples of different lengths, which takes and gives
// the positions of all of them as rows.
AttentionTensors gradients_beside_empty(const AttentionTensors& heads,
                                        const at::Tensor& output,
                                        const at::Tensor& sums,
                                        const at::Tensor& of_output,
                                        const FlashSettings& settings,
                                        int empty) {
  const auto& [query, key, value] = heads;
  const std::int64_t samples = query.size(0), positions = query.size(2);
  const auto rows = [](const at::Tensor& tensor) {
    return padded(tensor).transpose(1, 2).flatten(0, 1);
  };
  const at::Tensor starts =
      settings.starts.narrow(0, kMaxEmptySamples - empty, empty + 1 + samples);
  const at::Tensor none = at::empty({2}, query.options().dtype(at::kUInt64));
  auto [q, k, v] = at::_flash_attention_backward(
      rows(of_output), rows(query), rows(key), rows(value), rows(output),
      sums.transpose(0, 1).flatten(1), starts, starts, positions, positions, 0,
      settings.causal, none, none, settings.scale);
  const auto by_head = [&](const at::Tensor& tensor) {
    return by_position(unpadded(
        tensor.unflatten(0, {samples, positions}).transpose(1, 2), query));
  };
  return {by_head(q), by_head(k), by_head(v)};
}

}  // namespace

int num_empty_samples(std::int64_t samples, std::int64_t heads,
                      std::int64_t positions, int num_multiprocessors) {
  const std::int64_t blocks = (positions + kKeysPerBlock - 1) / kKeysPerBlock;
  int empty = 0;
  while (empty < kMaxEmptySamples &&
         (samples + empty) * heads * blocks < num_multiprocessors)
    ++empty;
  return empty;
}

at::Tensor sample_starts(std::int64_t positions) {
  const at::Tensor real =
      at::arange(1, kMaxSamples + 1, at::kInt).mul_(positions);
  return at::cat({at::zeros({kMaxEmptySamples + 1}, at::kInt), real});
}

bool needs_starts(const FlashSettings& settings, const at::Tensor& query) {
  return has_gpu_kernel(settings, query) &&
         at::globalContext().deterministicAlgorithms();
}

bool needs_future(const FlashSettings& settings, const at::Tensor& query) {
  return settings.causal && !query.is_cpu() && !has_gpu_kernel(settings, query);
}

std::pair<at::Tensor, at::Tensor> flash_attention(
    const AttentionTensors& heads, const FlashSettings& settings) {
  const auto& [query, key, value] = heads;
  if (query.is_cpu()) {
    auto [output, sums] = at::_scaled_dot_product_flash_attention_for_cpu(
        query, key, value, 0, settings.causal, mask_of(settings),
        settings.scale);
    return {output, sums};
  }
  if (has_gpu_kernel(settings, query)) {
    const auto result = at::_scaled_dot_product_flash_attention(
        padded(query), padded(key), padded(value), 0, settings.causal, false,
        settings.scale);
    return {by_position(unpadded(std::get<0>(result), query)),
            std::get<1>(result)};
  }
  const at::Tensor scores = scores_of(heads, settings);
  const at::Tensor sums = scores.logsumexp(-1);
  const at::Tensor used = probabilities(scores, sums, settings);
  return {by_position(used.to(value.scalar_type()).matmul(value)), sums};
}

AttentionTensors flash_gradients(const AttentionTensors& heads,
                                 const at::Tensor& output,
                                 const at::Tensor& sums,
                                 const at::Tensor& of_output,
                                 const FlashSettings& settings) {
  const auto& [query, key, value] = heads;
  if (query.is_cpu()) {
    auto [q, k, v] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        of_output, query, key, value, output, sums, 0, settings.causal,
        mask_of(settings), settings.scale);
    return {q, k, v};
  }
  if (!has_gpu_kernel(settings, query)) {
    const AttentionTensors made =
        gradients_by_products(heads, output, sums, of_output, settings);
    return {by_position(made.query), by_position(made.key),
            by_position(made.value)};
  }
  if (const int empty = empty_samples_beside(query, settings); empty > 0)
    return gradients_beside_empty(heads, output, sums, of_output, settings,
                                  empty);
  // Of random numbers, which nothing is dropped by.
  const at::Tensor none = at::empty({2}, query.options().dtype(at::kUInt64));
  auto [q, k, v] = at::_scaled_dot_product_flash_attention_backward(
      padded(of_output), padded(query), padded(key), padded(value),
      padded(output), sums, at::Tensor(), at::Tensor(), query.size(2),
      key.size(2), 0, settings.causal, none, none, settings.scale);
  return {by_position(unpadded(q, query)), by_position(unpadded(k, key)),
          by_position(unpadded(v, value))};
}

}  // namespace pipewright
