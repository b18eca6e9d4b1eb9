// A link as people write it: a name or a bandwidth, then optionally a latency
// and "half" (duplex), each after a plus sign.
//
//   nvlink   10GbE   1GB/s   10Gb/s   1GB/s+5us   10GbE+half   ib-hdr+2us
//
// A plain bandwidth means latency 0 and full duplex.

#pragma once

#include <map>
#include <string>
#include <string_view>

#include "pipewright/cluster/cluster.h"

namespace pipewright {

// `aliases` are looked up first: a V100's "nvlink" is "nvlink2". Fails with
// BadConfiguration and offers the nearest known name.
Result<Link> parse_link(std::string_view text,
                        const std::map<std::string, std::string>& aliases = {});

}  // namespace pipewright
