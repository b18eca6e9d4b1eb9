// Samples of a dataset; see training_samples.h.

#include <algorithm>
#include <utility>

#include "pipewright/runtime/data/training_samples.h"
#include "pipewright/runtime/tensors.h"

namespace pipewright {
namespace {

// Copied in the time that it takes to wake another thread.
constexpr std::size_t kFewBytes = 16384;

class StoredSamples : public TrainingSamples {
 public:
  explicit StoredSamples(Dataset dataset) : dataset_(std::move(dataset)) {}

  std::int64_t num_samples() const override { return dataset_.num_samples; }
  bool wants_loader(int microbatch) const override {
    for (std::size_t i = 0; i < dataset_.inputs.size(); ++i) {
      const StoredInput& input = dataset_.inputs[i];
      const std::size_t bytes =
          input.values.nbytes() /
          static_cast<std::size_t>(std::max<std::int64_t>(num_samples(), 1)) *
          static_cast<std::size_t>(microbatch);
      if (bytes > kFewBytes || input.scale != 1 ||
          input.values.scalar_type() != scalar_type(dataset_.forms[i].type) ||
          !input.values.is_contiguous())
        return true;
    }
    return false;
  }
  MicrobatchSource microbatches(const SampleRequest& request) override {
    return microbatches_of(dataset_, {request.seed, request.microbatch});
  }

 private:
  const Dataset dataset_;
};

}  // namespace

std::unique_ptr<TrainingSamples> stored_samples(Dataset dataset) {
  return std::make_unique<StoredSamples>(std::move(dataset));
}

}  // namespace pipewright
