// What people write for a link: a name or a rate, and more after a plus sign.
//
//   nvlink   10GbE   1GB/s   10Gb/s   1GB/s+5us   10GbE+half   ib-hdr+2us
//
// B is bytes, b is bits; k, M, G and T are powers of 1000. A plain rate has no
// latency and full duplex unless it says so.

#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "pipewright/cluster/cluster.h"

namespace pipewright {

// The whole text is the quantity, or nothing. Negative ones are nothing, too.
std::optional<BytesPerSecond> parse_bandwidth(std::string_view text);
std::optional<Seconds> parse_duration(std::string_view text);
std::optional<Bytes> parse_bytes(std::string_view text);  // "16GB", "32MiB"

// `aliases` are looked up first: a V100's "nvlink" is "nvlink2". Fails with
// BadConfiguration that offers the nearest known name.
Result<Link> parse_link(std::string_view text,
                        const std::map<std::string, std::string>& aliases = {});

}  // namespace pipewright
