// The forward half of a program: the same stages on the same workers, their
// forwards in the same order, and what travels between those. For evaluation
// under the pipeline that trains.

#pragma once

#include "pipewright/plan/program/program.h"

namespace pipewright {

// One pass over that many microbatches, all with the weights the run starts
// with: a run of one minibatch, without a body that repeats. What the
// operations say of memory is training's.
Program forward_program(const Program& program, int num_microbatches);

}  // namespace pipewright
