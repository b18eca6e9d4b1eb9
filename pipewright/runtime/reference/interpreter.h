// A program run on one thread, as plainly as its definition (execution.h)
// reads: no channels, no ring of versions, nothing ever freed. The executor
// must equal it, bit for bit, for every program. Too slow and with too much
// memory for anything else.

#pragma once

#include "pipewright/base/result.h"
#include "pipewright/runtime/training/training.h"

namespace pipewright {

// Fails with MalformedInput if sends and receives do not match, or if no worker
// can go on before all are done.
Result<Trained> interpret(const Model& model, const Program& program,
                          const TrainingSettings& settings,
                          const MicrobatchSource& source, int minibatches);

}  // namespace pipewright
