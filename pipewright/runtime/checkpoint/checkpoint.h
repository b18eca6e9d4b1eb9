// The state of training in a folder, from which any plan of the same model goes
// on to the same bits:
//
//   RUN/checkpoints/step-120/manifest.json
//                            layer-0000.safetensors ...
//
// A layer's file has its parameters (a tied one with its first user), the
// optimizer's tensors and running statistics. The data cursor is the step:
// which samples a step sees follows from seed and step. The folder appears
// under its name when all is in it, and the last two are kept.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/runtime/execution/executor.h"

namespace pipewright {

// What must be the same where training goes on.
struct CheckpointOrigin {
  std::string model;
  std::string data;
  std::string optimizer;
  std::uint64_t seed = 1;
  int minibatch = 1;
  bool operator==(const CheckpointOrigin&) const = default;
};

// The folder written. Fails with CannotCreate or CannotWrite; what was there
// before is then still there.
Result<std::filesystem::path> write_checkpoint(const std::filesystem::path& run,
                                               const Model& model,
                                               const CheckpointOrigin& origin,
                                               const TrainingState& state);

// The newest of a run that is as it was written. One with a file cut off,
// altered or missing is passed over, and `passed_over` gets why: the file's
// name. Fails with MissingInput (there is none), BadConfiguration (another
// model, data, seed ...: both named) or, where none is left, with
// MalformedInput about the newest.
Result<TrainingState> read_checkpoint(
    const std::filesystem::path& run, const Model& model,
    const CheckpointOrigin& origin, std::vector<Error>* passed_over = nullptr);

// From now on write_checkpoint() finds no room on the disk, to see what comes
// of it.
void pretend_disk_is_full();

bool has_checkpoint(const std::filesystem::path& run);

}  // namespace pipewright
