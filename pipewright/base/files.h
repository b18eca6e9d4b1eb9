// Whole files in and out. A write is atomic: a reader sees the old file or the
// new one, never a part, and a failed write leaves nothing behind.

#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "pipewright/base/result.h"
#include "pipewright/base/units.h"

namespace pipewright {

// No reader of ours takes more than this in one file.
inline constexpr Bytes kMaxTextFile{64LL << 20};

// Fails with MissingInput (none, a folder, no permission) or MalformedInput
// (larger than kMaxTextFile).
Result<std::string> read_file(const std::filesystem::path& path);

// Temporary beside it, fsync, rename; a device or pipe is written in place.
// Fails with CannotCreate or CannotWrite.
Result<void> write_file(const std::filesystem::path& path,
                        std::string_view text);

}  // namespace pipewright
