// BaPipe with some of its parts switched off, for a table that shows what each
// of them is worth (experiments/bapipe).

#pragma once

#include <memory>

#include "pipewright/planners/bapipe/bapipe_parts.h"
#include "pipewright/planners/planner.h"

namespace pipewright {

std::unique_ptr<Planner> bapipe_planner(BaPipeParts parts);

}  // namespace pipewright
