// Changing how weights move inside one run: a synchronous warm-up before an
// asynchronous method (PipeMare's T3), and the correction of its backward (T2)
// switched on or off.

#pragma once

#include "pipewright/base/result.h"
#include "pipewright/plan/plan.h"
#include "pipewright/plan/program/program.h"

namespace pipewright {

// The same stages on the same workers in the same order, but drained after each
// minibatch. A synchronous plan is answered as it is.
Result<Plan> drained(const Plan& plan);

// The program of drained(plan). It keeps the velocity that `program`, the
// plan's own, reads later, so that it is there when the method changes. Fails
// as lower() does.
Result<Program> warm_up_program(const Plan& plan, const Profile& profile,
                                const Program& program);

// Whether backward and recomputation read weights moved back. Only for a
// program of the method pipemare.
void set_corrected(Program& program, bool corrected);

}  // namespace pipewright
