// Samples of a dataset; see training_samples.h.

#include <utility>

#include "pipewright/runtime/data/training_samples.h"

namespace pipewright {
namespace {

class StoredSamples : public TrainingSamples {
 public:
  explicit StoredSamples(Dataset dataset) : dataset_(std::move(dataset)) {}

  std::int64_t num_samples() const override { return dataset_.num_samples; }
  bool prepares_ahead() const override { return false; }
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
