// Quantities as people write them: "12.5GB/s", "5us", "16GB".
//
// B is bytes, b is bits; k, M, G and T are powers of 1000, KiB to TiB of 1024.

#pragma once

#include <optional>
#include <string_view>

#include "pipewright/base/units.h"

namespace pipewright {

// The whole text must be one quantity that is not negative; otherwise nothing.
std::optional<BytesPerSecond> parse_bandwidth(std::string_view text);
std::optional<Seconds> parse_duration(std::string_view text);
std::optional<Bytes> parse_bytes(std::string_view text);  // "16GB", "32MiB"

}  // namespace pipewright
