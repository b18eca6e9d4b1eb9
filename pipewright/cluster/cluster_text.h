// A cluster as text, as on the command line:
//
//   [HOSTSx]COUNTxKIND[+[HOSTSx]COUNTxKIND...][@LINK][/LINK]
//
//   4xcpu                     four cores of this machine
//   4xV100@1GB/s              one host, every pair linked by 1 GB/s
//   2x8xV100@nvlink/10GbE     two hosts of eight, one network card each
//   2xVCU118+2xVCU129@10GB/s  mixed kinds on one host
//   1x8xV100+1x4xT4/25GbE     a term with HOSTS adds more hosts
//
// The first LINK connects devices of one host; by default each pair has the
// slower of its kinds' default links. The second LINK connects hosts (default:
// 10GbE); each host has one network card of that bandwidth, shared by all its
// devices; with one host it is an error. link_text.h says what a LINK may be.

#pragma once

#include <string>
#include <string_view>

#include "pipewright/cluster/cluster.h"

namespace pipewright {

// Fails with BadConfiguration.
Result<Cluster> parse_cluster_text(std::string_view text);

// "host0/V100.3", or "V100.3" if there is only one host.
std::string device_name(const std::string& kind, int index, int host,
                        int num_hosts);

}  // namespace pipewright
