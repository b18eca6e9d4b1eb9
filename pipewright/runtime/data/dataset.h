// Samples to train on, all in memory, as the model's inputs want them.
//
//   Result<Dataset> digits = open_dataset("digits", model);
//   MicrobatchSource source = microbatches_of(*digits, {seed, 16});
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
#include "pipewright/runtime/training/training.h"

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
  at::Tensor batch_of(int input, const at::Tensor& samples) const;  // int64
};

// DATA as on the command line:
//   digits              1797 images of 8x8, shipped with us
//   fashion-mnist       60000 images of Debian's dataset-fashion-mnist; where
//                       that is not, $PIPEWRIGHT_DATA/fashion-mnist-10k
//   fashion-mnist-test  its other 10000
//   idx:FOLDER          *-images-idx3-ubyte[.gz] and its labels
//   idx:IMAGES,LABELS   the two files
//   text:FILE           bytes; the target is the next byte
//   chars:FILE[,FILE]   characters, numbered by those of all the files
//   tokens:FILE         tokens as llm.c has them
//   pairs:FILE          source and target a line, a tab between
//   trans-de-en         Debian's German-English dictionary of that name
//   synthetic[:N]       N random samples of any model
// Fails with BadConfiguration (unknown; does not fit the model, with both
// shapes), MissingInput, or MalformedInput (label out of range, with the
// sample's number).
Result<Dataset> open_dataset(const std::string& text, const Model& model);

struct BatchSettings {
  std::uint64_t seed = 1;
  int microbatch = 1;
};

// Epochs follow each other without a gap: where one ends inside a minibatch,
// the first samples of the next one fill it. So every epoch sees every sample
// once, and no minibatch is short.
//
// Steps until so many epochs have been seen.
std::int64_t steps_of_epochs(const Dataset& dataset, int minibatch,
                             std::int64_t epochs);

// The order in which an epoch goes through the samples.
std::vector<std::int64_t> epoch_order(const Dataset& dataset,
                                      std::uint64_t seed, std::int64_t epoch);

// The dataset outlives the source.
MicrobatchSource microbatches_of(const Dataset& dataset,
                                 const BatchSettings& settings);

// Every sample once, in the order of the dataset; behind the last one the first
// fills the microbatch.
MicrobatchSource in_order(const Dataset& dataset, int microbatch);

// `share` of the samples, at least one, chosen by the seed alone, and the rest.
struct Split {
  Dataset rest, held_out;
};
Split split(const Dataset& dataset, double share, std::uint64_t seed);

}  // namespace pipewright
