// failure_RANK.json in the run folder: what ended a process, and the last
// actions of its workers before that.

#pragma once

#include <filesystem>

#include "pipewright/base/error.h"
#include "pipewright/runtime/ranks/progress.h"

namespace pipewright {

// Best effort: a run that fails because nothing can be written has no report.
void write_failure(const std::filesystem::path& run, int rank,
                   const Error& error, const Progress& progress);

// What an earlier start has left would be taken for this one's.
void remove_failure(const std::filesystem::path& run, int rank);

}  // namespace pipewright
