#include "pipewright/runtime/data/dataset.h"

#include <map>
#include <mutex>
#include <numeric>

#include "pipewright/base/check.h"
#include "pipewright/runtime/layers/random_stream.h"

namespace pipewright {
namespace {

// Orders of the epochs in use: an asynchronous pipeline has two at once.
class Orders {
 public:
  Orders(const Dataset& dataset, std::uint64_t seed)
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

}  // namespace

at::Tensor Dataset::batch(int input,
                          const std::vector<std::int64_t>& samples) const {
  const auto i = static_cast<std::size_t>(input);
  const auto count = static_cast<std::int64_t>(samples.size());
  const at::Tensor which = at::empty({count}, at::kLong);
  std::copy(samples.begin(), samples.end(), which.data_ptr<std::int64_t>());
  at::Tensor rows =
      inputs[i].values.index_select(0, which).to(scalar_type(forms[i].type));
  if (inputs[i].scale != 1) rows.mul_(inputs[i].scale);
  Shape sizes = {count};
  sizes.insert(sizes.end(), forms[i].shape.begin(), forms[i].shape.end());
  return rows.view(sizes);
}

std::int64_t minibatches_per_epoch(const Dataset& dataset, int minibatch) {
  return dataset.num_samples / minibatch;
}

// Fisher and Yates, from numbers of the epoch's own.
std::vector<std::int64_t> epoch_order(const Dataset& dataset,
                                      std::uint64_t seed, std::int64_t epoch) {
  std::vector<std::int64_t> order(
      static_cast<std::size_t>(dataset.num_samples));
  std::iota(order.begin(), order.end(), 0);
  if (!dataset.is_shuffled) return order;
  const RandomStream stream(seed, 0x5ABF1E, static_cast<std::uint64_t>(epoch));
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[stream.bits(i) % i]);
  return order;
}

MicrobatchSource microbatches_of(const Dataset& dataset,
                                 const BatchSettings& settings) {
  const std::int64_t per_epoch =
      minibatches_per_epoch(dataset, settings.minibatch);
  PIPEWRIGHT_CHECK(per_epoch > 0, "fewer samples than a minibatch");
  const auto orders = std::make_shared<Orders>(dataset, settings.seed);
  return [&dataset, settings, per_epoch, orders](int input,
                                                 std::int64_t microbatch) {
    const std::int64_t first = microbatch * settings.microbatch;
    const std::int64_t minibatch = first / settings.minibatch;
    const auto order = orders->of(minibatch / per_epoch);
    const std::int64_t at =
        minibatch % per_epoch * settings.minibatch + first % settings.minibatch;
    return dataset.batch(input, std::vector<std::int64_t>(
                                    order->begin() + at,
                                    order->begin() + at + settings.microbatch));
  };
}

}  // namespace pipewright
