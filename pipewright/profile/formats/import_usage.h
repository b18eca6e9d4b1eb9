// The sentences with which importers answer who gives a file of another system
// where a plan file is expected (Importer::usage). What stands in capitals
// after the file's name is the user's to fill in.

#pragma once

#include <string>

#include "pipewright/profile/formats/importer.h"

namespace pipewright {

// A file with a plan: with `more` it makes a profile, a plan and a cluster.
std::string plan_usage(const SourceFile& file, const std::string& more);
// A file without a plan: with `more` it makes a profile.
std::string profile_usage(const SourceFile& file, const std::string& more);
// A file of which nothing of ours is made; `why` says what it is for.
std::string printed_usage(const SourceFile& file, const std::string& why);

}  // namespace pipewright
