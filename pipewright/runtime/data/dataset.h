// Samples to train on, all in memory, as the model's inputs want them.
//
//   Result<Dataset> digits = open_dataset("digits", model);
//   MicrobatchSource source = microbatches_of(*digits, {seed, 64, 16});
//
// Which samples a microbatch has follows from (seed, epoch) and its number
// alone: no plan, worker or thread changes it, and there is no cursor to lose.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/model/model.h"
#include "pipewright/runtime/training.h"

namespace pipewright {

// One of the model's inputs for every sample: values * scale in the input's
// type and shape. Kept in the source's type, as pixels are bytes.
struct StoredInput {
  at::Tensor values;  // first dimension: samples
  double scale = 1;
};

struct Dataset {
  std::string name;
  std::int64_t num_samples = 0;
  std::vector<ModelInput> forms;    // the model's
  std::vector<StoredInput> inputs;  // one each
  bool is_shuffled = true;

  at::Tensor batch(int input, const std::vector<std::int64_t>& samples) const;
};

// DATA as on the command line:
//   digits              1797 images of 8x8, shipped with us
//   fashion-mnist       $PIPEWRIGHT_DATA/fashion-mnist-10k
//   idx:FOLDER          *-images-idx3-ubyte[.gz] and its labels
//   idx:IMAGES,LABELS   the two files
//   text:FILE           bytes; the target is the next byte
//   synthetic[:N]       N random samples of any model
// Fails with BadConfiguration (unknown; does not fit the model, with both
// shapes), MissingInput, or MalformedInput (label out of range, with the
// sample's number).
Result<Dataset> open_dataset(const std::string& text, const Model& model);

struct BatchSettings {
  std::uint64_t seed = 1;
  int minibatch = 1;
  int microbatch = 1;
};

// Minibatches of an epoch; what is left over is not seen in that epoch. 0 where
// there are fewer samples than a minibatch has.
std::int64_t minibatches_per_epoch(const Dataset& dataset, int minibatch);

// The order in which an epoch goes through the samples.
std::vector<std::int64_t> epoch_order(const Dataset& dataset,
                                      std::uint64_t seed, std::int64_t epoch);

// The dataset outlives the source; at least one minibatch an epoch.
MicrobatchSource microbatches_of(const Dataset& dataset,
                                 const BatchSettings& settings);

}  // namespace pipewright
