// PipeMare Recompute: a plan whose stages make anew what their backward needs.
//
// Yang et al., "PipeMare: Asynchronous Pipeline Parallel DNN Training", MLSys
// 2021: a segment of stages keeps the input of its first one for the whole
// round trip, and makes the rest anew just in time. Near the square root of the
// stage count a segment's length leaves least.

#pragma once

#include "pipewright/base/result.h"
#include "pipewright/plan/plan.h"

namespace pipewright {

// The same asynchronous plan with segments of so many stages, at least one. A
// worker that takes turns among several stages cannot have two recomputations
// of one microbatch at once: there each stage recomputes from its own input,
// just before its backward.
Result<Plan> recomputing(Plan plan, int segment);

bool has_segments(const Plan& plan);

}  // namespace pipewright
