// What a training reads, microbatch by microbatch: samples of a dataset in
// memory, or samples that another process hands over while training runs.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "pipewright/base/result.h"
#include "pipewright/runtime/data/dataset.h"

namespace pipewright {

// The steps that are left of a run, and how their samples are cut.
struct SampleRequest {
  std::uint64_t seed = 1;
  int microbatch = 1;               // samples
  int num_microbatches = 1;         // of a minibatch
  std::int64_t first = 0, end = 0;  // steps
  // How often workers ask for samples of a step, all inputs together.
  std::function<std::int64_t(std::int64_t step)> num_reads;
};
// Of a step under the program: once for each of the model's inputs that a
// forward, or a forward that is run again, reads.
std::int64_t sample_reads(const Model& model, const Program& program);

class TrainingSamples {
 public:
  virtual ~TrainingSamples() = default;

  virtual std::int64_t num_samples() const = 0;  // of an epoch; 0: not known
  // Whether a loader is worth its thread for microbatches of so many samples:
  // nobody else prepares them ahead, and that takes longer than handing them
  // over.
  virtual bool wants_loader(int microbatch) const = 0;
  // Called once. The source must not outlive this object.
  virtual MicrobatchSource microbatches(const SampleRequest& request) = 0;
  // Whether there are samples for this step of the request; waits until that is
  // known. May be called on any thread.
  virtual bool has_step(std::int64_t) { return true; }
};

std::unique_ptr<TrainingSamples> stored_samples(Dataset dataset);

// DATA that the Python package hands over. Its process has started this one,
// which finds in the environment variable PIPEWRIGHT_FEED the numbers of two
// inherited file descriptors, "SOCKET,MEMORY". MEMORY is a file that both map.
// Over SOCKET this process asks for one minibatch after another, with two
// std::int64_t: its number, and where in MEMORY it is to be. The answer is the
// number, when the samples are there: one input of the model after the other,
// each at a multiple of 64 bytes. Its memory is used again when all workers
// have asked for it and no tensor has it any more; so few minibatches are in
// memory, and none is copied.
inline constexpr std::string_view kFedData = "python";

// Fails with BadConfiguration where no process hands samples over. A source
// throws where it is asked for a step that has_step() denies.
Result<std::unique_ptr<TrainingSamples>> fed_samples(const Model& model);

}  // namespace pipewright
