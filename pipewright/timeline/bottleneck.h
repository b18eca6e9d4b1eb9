// What limits a step, as text: the critical path summed up, and a table of the
// workers.

#pragma once

#include <span>
#include <string>
#include <vector>

#include "pipewright/timeline/critical_path.h"

namespace pipewright {

// "stage 3 is the bottleneck: 71 % of the critical path; link 2 to 3: 12 %".
// Where `shown_as` is given, it has the number that is shown for each stage;
// stages with the same number count together.
std::string bottleneck_text(const std::vector<PathPiece>& path,
                            std::span<const StageId> shown_as = {});

// One row per worker: the shares of the run in which it is busy, waits for
// transfers and is otherwise idle; its memory peak and what that consists of.
std::string workers_text(const Timeline& timeline, int width = 100);

}  // namespace pipewright
