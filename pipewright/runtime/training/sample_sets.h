// What a run trains on, and what it evaluates on.

#pragma once

#include <memory>
#include <optional>

#include "pipewright/base/result.h"
#include "pipewright/runtime/data/dataset.h"
#include "pipewright/runtime/data/training_samples.h"
#include "pipewright/runtime/training/train_request.h"

namespace pipewright {

struct SampleSets {
  std::unique_ptr<TrainingSamples> training;
  std::optional<Dataset> held_out;
};

// As the request names them; `is_alone`: there are no other ranks. Fails as
// open_dataset() and fed_samples() do, and with BadConfiguration for what the
// data cannot be used for.
Result<SampleSets> open_samples(const Model& model, const TrainRequest& request,
                                bool is_alone);

}  // namespace pipewright
