// The forward half of a program: the same stages on the same workers, their
// forwards in the same order, and what travels between those. For evaluation
// under the pipeline that trains.

#pragma once

#include "pipewright/plan/program/program.h"
#include "pipewright/profile/profile.h"

namespace pipewright {

// One pass over that many microbatches, all with the weights the run starts
// with: a run of one minibatch, without a body that repeats. What the
// operations say of memory is training's. Of the profile only the graph is
// used.
Program forward_program(const Program& program, const Profile& profile,
                        int num_microbatches);

}  // namespace pipewright
