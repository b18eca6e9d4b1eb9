// Reads and writes whole files. A write is atomic: a reader sees the old file
// or the new one, never a part of it, and a failed write leaves no file.

#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "pipewright/base/result.h"
#include "pipewright/base/units.h"

namespace pipewright {

// The largest file that is read.
inline constexpr Bytes kMaxTextFile{64LL << 20};

// Fails with MissingInput (not found, a folder, no permission) or
// MalformedInput (larger than kMaxTextFile).
Result<std::string> read_file(const std::filesystem::path& path);

// Writes a temporary file in the same folder, syncs and renames it; a device or
// pipe is written in place. Fails with CannotCreate or CannotWrite.
Result<void> write_file(const std::filesystem::path& path,
                        std::string_view text);

}  // namespace pipewright
