// A program run on one thread, as plainly as its definition reads: no channels,
// no ring of versions, nothing ever freed. What the executor must equal, bit
// for bit, for every program; too slow and too hungry for anything else.

#pragma once

#include "pipewright/base/result.h"
#include "pipewright/runtime/training/training.h"

namespace pipewright {

// Fails with MalformedInput if no worker can go on before all are done.
Result<Trained> interpret(const Model& model, const Program& program,
                          const TrainingSettings& settings,
                          const MicrobatchSource& source, int minibatches);

}  // namespace pipewright
