// Samples to train on, all in memory, in the shapes of the model's inputs.
//
//   Result<Dataset> digits = open_dataset("digits", model);
//   MicrobatchSource source = microbatches_of(*digits, {seed, 16});
//
// Which samples a microbatch has follows from (seed, epoch) and its number
// alone: it does not depend on plan, worker or thread, and a checkpoint needs
// no position in the data.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/model/model.h"
#include "pipewright/runtime/training/training.h"

namespace pipewright {

// One of the model's inputs for every sample: values * scale, in the input's
// type and shape. Stored in the type of the source: pixels are bytes.
struct StoredInput {
  at::Tensor values;  // first dimension: samples
  double scale = 1;
};

struct Dataset {
  std::string name;
  std::int64_t num_samples = 0;
  std::vector<ModelInput> forms;    // the model's inputs
  std::vector<StoredInput> inputs;  // one per form
  bool is_shuffled = true;

  at::Tensor batch(int input, const std::vector<std::int64_t>& samples) const;
};

// DATA as on the command line:
//   digits              1797 images of 8x8, built in
//   fashion-mnist       60000 images of Debian's dataset-fashion-mnist, or
//                       $PIPEWRIGHT_DATA/fashion-mnist-10k without it
//   fashion-mnist-test  its 10000 test images
//   idx:FOLDER          *-images-idx3-ubyte[.gz] and its labels
//   idx:IMAGES,LABELS   the two files
//   text:FILE           bytes; the target is the next byte
//   chars:FILE[,FILE]   characters, numbered by those of all the files
//   tokens:FILE         tokens as llm.c has them
//   pairs:FILE          a source, a tab and a target per line
//   trans-de-en         Debian's German-English dictionary
//   tensors:FILE        safetensors with a tensor per model input, by its name
//   batches:FILE        the same in the order of the file, not shuffled
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
// the first samples of the next one fill it. So every epoch has every sample
// once, and every minibatch is full.
//
// The number of steps for that many epochs of so many samples.
std::int64_t steps_of_epochs(std::int64_t num_samples, int minibatch,
                             std::int64_t epochs);

// The order in which an epoch goes through the samples.
std::vector<std::int64_t> epoch_order(const Dataset& dataset,
                                      std::uint64_t seed, std::int64_t epoch);

// The dataset must outlive the source.
MicrobatchSource microbatches_of(const Dataset& dataset,
                                 const BatchSettings& settings);

// Every sample once, in the order of the dataset; the first one fills up the
// last microbatch.
MicrobatchSource in_order(const Dataset& dataset, int microbatch);

// `share` of the samples, at least one, chosen by the seed alone; and the rest.
struct Split {
  Dataset rest, held_out;
};
Split split(const Dataset& dataset, double share, std::uint64_t seed);

}  // namespace pipewright
