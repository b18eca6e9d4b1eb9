// The data of `report RUN_FOLDER`: metrics over steps, and the measured
// timeline of the last step beside the predicted one.

#pragma once

#include <filesystem>

#include "pipewright/base/json.h"
#include "pipewright/base/result.h"

namespace pipewright::cli {

// Whether this is a folder that `train` made.
bool is_run_folder(const std::filesystem::path& path);

// Fails with MissingInput or MalformedInput. Of a run in progress or one that
// failed, what is there is reported.
Result<Json> run_report(const std::filesystem::path& folder);

}  // namespace pipewright::cli
