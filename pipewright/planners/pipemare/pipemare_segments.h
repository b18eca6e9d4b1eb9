// PipeMare Recompute: a plan whose stages recompute what their backward needs.
//
// Yang et al., "PipeMare: Asynchronous Pipeline Parallel DNN Training", MLSys
// 2021: a segment of stages keeps only the input of its first stage for the
// whole round trip, and recomputes the rest just in time. Memory is smallest
// with segments of about the square root of the number of stages.

#pragma once

#include "pipewright/base/result.h"
#include "pipewright/plan/plan.h"

namespace pipewright {

// The same asynchronous plan with segments of `segment` stages, at least one. A
// worker with several stages cannot have two recomputations of one microbatch
// at once, so there each stage recomputes from its own input, just before its
// backward.
Result<Plan> recomputing(Plan plan, int segment);

bool has_segments(const Plan& plan);

}  // namespace pipewright
