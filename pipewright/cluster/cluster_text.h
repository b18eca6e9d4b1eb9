// A cluster in one word, as on the command line:
//
//   [HOSTSx]COUNTxKIND[+COUNTxKIND...][@LINK][/LINK]
//
//   4xcpu                     four cores of this machine
//   4xV100@1GB/s              one host, every pair linked by 1 GB/s
//   2x8xV100@nvlink/10GbE     two hosts of eight, one network card each
//   2xVCU118+2xVCU129@10GB/s  mixed kinds on one host
//   1x8xV100+1x4xT4/25GbE     a term with HOSTS of its own starts further hosts
//
// The first LINK joins devices of one host; without it each pair takes the
// slower of its kinds' default links. The second joins hosts (10GbE without
// it): its bandwidth is also that of each host's network card, which all the
// host's devices share. What a LINK may be is in link_text.h.

#pragma once

#include <string>
#include <string_view>

#include "pipewright/cluster/cluster.h"

namespace pipewright {

// Fails with BadConfiguration.
Result<Cluster> parse_cluster_text(std::string_view text);

// "host0/V100.3", or "V100.3" where there is one host only.
std::string device_name(const std::string& kind, int index, int host,
                        int num_hosts);

}  // namespace pipewright
