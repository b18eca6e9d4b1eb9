// The state of a training in a folder, from which any plan of the same model
// continues to the same bits:
//
//   RUN/checkpoints/step-120/manifest.json
//                            layer-0000.safetensors ...
//
// A layer's file has its parameters (a tied one is with its first user), the
// optimizer's tensors and running statistics. The step is the only position in
// the data: which samples a step sees follows from seed and step. The folder
// gets its name when everything is in it, and the last two that are complete
// are kept. The manifest has the checksum of every file, and its own.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/model/model.h"
#include "pipewright/runtime/execution/training_state.h"

namespace pipewright {

// What must be the same when training continues.
struct CheckpointOrigin {
  std::string model;
  std::string data;
  std::string optimizer;
  std::uint64_t seed = 1;
  int minibatch = 1;
  bool operator==(const CheckpointOrigin&) const = default;
};

// Returns the folder written. Fails with CannotCreate or CannotWrite; older
// checkpoints are then kept.
Result<std::filesystem::path> write_checkpoint(const std::filesystem::path& run,
                                               const Model& model,
                                               const CheckpointOrigin& origin,
                                               const TrainingState& state);

// The newest undamaged checkpoint of a run. One with a file that is cut off,
// altered or missing is skipped, `skipped` gets an error that names the file,
// and the folder becomes step-N.damaged. Fails with MissingInput (there is
// none), BadConfiguration (a different model, data, seed ...: both named) or,
// if all are damaged, with MalformedInput about the newest.
Result<TrainingState> read_checkpoint(const std::filesystem::path& run,
                                      const Model& model,
                                      const CheckpointOrigin& origin,
                                      std::vector<Error>* skipped = nullptr);

// From now on write_checkpoint() finds the disk full: a fault on purpose.
void pretend_disk_is_full();

bool has_checkpoint(const std::filesystem::path& run);
// Fails with MissingInput if the run has no checkpoint.
Result<void> find_checkpoint(const std::filesystem::path& run);

}  // namespace pipewright
