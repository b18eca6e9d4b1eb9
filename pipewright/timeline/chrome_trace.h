// A timeline in the JSON trace format that Perfetto and chrome://tracing open.
//
// Each worker is a process with lanes for compute, sends, receives and steps
// (transfers that overlap get more lanes), an arrow from each send to its
// receive, and its memory as a counter. Times are microseconds.

#pragma once

#include <string>

#include "pipewright/plan/program/program.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright {

std::string chrome_trace(const Program& program, const Timeline& timeline);

}  // namespace pipewright
