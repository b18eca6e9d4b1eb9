// The tensors of an exported model after training, in one safetensors file with
// the names of the module's state_dict(): load_state_dict() takes it.

#pragma once

#include <filesystem>

#include "pipewright/base/result.h"
#include "pipewright/model/model.h"
#include "pipewright/runtime/execution/training_state.h"

namespace pipewright {

// Parameters under all their names, frozen parameters and buffers, and what
// else was in the file that training began with. Fails with MalformedInput if
// that is gone, or with CannotCreate or CannotWrite; an older file is then
// kept.
Result<void> write_weights(const std::filesystem::path& file,
                           const Model& model, const TrainingState& state);

}  // namespace pipewright
