#include "pipewright/runtime/data/dataset.h"

#include <ATen/core/DimVector.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <span>

#include "pipewright/runtime/random_stream.h"

namespace pipewright {
namespace {

// The orders of the epochs in use: an asynchronous pipeline has two at once.
class EpochOrders {
 public:
  EpochOrders(const Dataset& dataset, std::uint64_t seed)
      : dataset_(dataset), seed_(seed) {}

  using Order = std::shared_ptr<const std::vector<std::int64_t>>;
  Order of(std::int64_t epoch) {
    const std::lock_guard lock(mutex_);
    Order& order = known_[epoch];
    if (!order)
      order = std::make_shared<const std::vector<std::int64_t>>(
          epoch_order(dataset_, seed_, epoch));
    const Order answer = order;
    while (known_.size() > 3) known_.erase(known_.begin());
    return answer;
  }

 private:
  const Dataset& dataset_;
  const std::uint64_t seed_;
  std::mutex mutex_;
  std::map<std::int64_t, Order> known_;
};

// Tensors are made once for each microbatch, with the sizes that they end with:
// for a few samples making one takes longer than filling it, and that is time
// of the workers where they have all the cores.
at::Tensor selected(const at::Tensor& values,
                    const std::vector<std::int64_t>& samples,
                    at::IntArrayRef sizes) {
  if (!values.is_contiguous())
    return values.index_select(0, at::tensor(samples)).view(sizes);
  at::Tensor rows = at::empty(sizes, values.options());
  const auto bytes = static_cast<std::int64_t>(
      values.numel() / std::max<std::int64_t>(values.size(0), 1) *
      static_cast<std::int64_t>(values.element_size()));
  const auto* from = static_cast<const char*>(values.const_data_ptr());
  auto* to = static_cast<char*>(rows.mutable_data_ptr());
  for (const std::int64_t sample : samples) {
    TORCH_CHECK(sample >= 0 && sample < values.size(0), "no sample ", sample);
    std::memcpy(to, from + sample * bytes, bytes);
    to += bytes;
  }
  return rows;
}

}  // namespace

at::Tensor Dataset::batch(int input,
                          const std::vector<std::int64_t>& samples) const {
  const StoredInput& stored = inputs[input];
  const ModelInput& form = forms[input];
  at::Tensor rows =
      selected(stored.values, samples,
               sizes_of(static_cast<std::int64_t>(samples.size()), form.shape));
  if (rows.scalar_type() != scalar_type(form.type))
    rows = rows.to(scalar_type(form.type));
  if (stored.scale != 1) rows.mul_(stored.scale);
  return rows;
}

std::int64_t steps_of_epochs(std::int64_t num_samples, int minibatch,
                             std::int64_t epochs) {
  return (epochs * num_samples + minibatch - 1) / minibatch;
}

// Fisher and Yates, with random numbers of this epoch.
std::vector<std::int64_t> epoch_order(const Dataset& dataset,
                                      std::uint64_t seed, std::int64_t epoch) {
  std::vector<std::int64_t> order(dataset.num_samples);
  std::iota(order.begin(), order.end(), 0);
  if (!dataset.is_shuffled) return order;
  const RandomStream stream(seed, 0x5ABF1E, static_cast<std::uint64_t>(epoch));
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[stream.bits(i) % i]);
  return order;
}

MicrobatchSource microbatches_of(const Dataset& dataset,
                                 const BatchSettings& settings) {
  const auto orders = std::make_shared<EpochOrders>(dataset, settings.seed);
  return [&dataset, settings, orders](int input, std::int64_t microbatch) {
    thread_local std::vector<std::int64_t> samples;  // keeps its memory
    samples.clear();
    const std::int64_t first = microbatch * settings.microbatch;
    EpochOrders::Order order;
    for (std::int64_t i = first; i < first + settings.microbatch; ++i) {
      const std::int64_t place = i % dataset.num_samples;
      if (!order || place == 0) order = orders->of(i / dataset.num_samples);
      samples.push_back((*order)[place]);
    }
    return dataset.batch(input, samples);
  };
}

MicrobatchSource in_order(const Dataset& dataset, int microbatch) {
  return [&dataset, microbatch](int input, std::int64_t number) {
    std::vector<std::int64_t> samples;
    const std::int64_t first = number * microbatch;
    for (std::int64_t i = first; i < first + microbatch; ++i)
      samples.push_back(i < dataset.num_samples ? i : 0);
    return dataset.batch(input, samples);
  };
}

namespace {

Dataset chosen(const Dataset& dataset, const at::Tensor& which) {
  Dataset part = dataset;
  part.num_samples = which.numel();
  for (StoredInput& input : part.inputs)
    input.values = input.values.index_select(0, which);
  return part;
}

}  // namespace

Split split(const Dataset& dataset, double share, std::uint64_t seed) {
  Dataset shuffled = dataset;
  shuffled.is_shuffled = true;
  constexpr std::int64_t kNoEpoch = -1;  // an order that no epoch has
  std::vector<std::int64_t> order = epoch_order(shuffled, seed, kNoEpoch);
  const auto wanted = static_cast<std::int64_t>(
      share * static_cast<double>(dataset.num_samples));
  const std::int64_t held =
      std::clamp<std::int64_t>(wanted, 1, dataset.num_samples - 1);
  std::sort(order.begin(), order.begin() + held);
  std::sort(order.begin() + held, order.end());
  const at::Tensor all =
      at::from_blob(order.data(), {dataset.num_samples}, at::kLong);
  return {chosen(dataset, all.narrow(0, held, dataset.num_samples - held)),
          chosen(dataset, all.narrow(0, 0, held))};
}

}  // namespace pipewright
