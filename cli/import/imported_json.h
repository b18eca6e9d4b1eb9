// What was imported, as the --json of `pipewright import`.

#pragma once

#include <string>
#include <vector>

#include "pipewright/base/json.h"
#include "pipewright/profile/formats/importer.h"

namespace pipewright::cli {

// What of a profile the source did not give.
std::vector<std::string> estimates(const Profile& profile);

Json imported_json(const Imported& imported);

}  // namespace pipewright::cli
