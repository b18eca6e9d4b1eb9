// failure_RANK.json in the run folder: what ended a rank, and the last actions
// of its workers before that.

#pragma once

#include <filesystem>

#include "pipewright/base/error.h"
#include "pipewright/runtime/ranks/progress.h"

namespace pipewright {

// Best effort: where nothing can be written there is no report. `signal` is the
// one that asked for the end, or 0.
void write_failure(const std::filesystem::path& run, int rank,
                   const Error& error, int signal, const Progress& progress);

// Removes the report of an earlier start.
void remove_failure(const std::filesystem::path& run, int rank);

}  // namespace pipewright
