// Before the first step all ranks compare what they are about to do: a plan
// that is older on one host, or another seed, would train nonsense silently.

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/cluster/cluster.h"
#include "pipewright/plan/plan.h"
#include "pipewright/runtime/channels/transport.h"

namespace pipewright {

// What must be the same on every rank, by name: "plan" and its text. Long texts
// are compared by their hash.
using Intentions = std::vector<std::pair<std::string, std::string>>;

// Fails on every rank alike: with WorkersDisagree, naming the ranks, their
// hosts and what differs; or with the error of a rank that has no intentions.
Result<void> agree(Transport& transport, const Result<Intentions>& mine);

// Whether each rank is on the host that its worker's device is on. A device's
// name says a host by what is before its slash, "node7/gpu0", unless that is
// host0, host1 and so on, which only tell hosts apart. Fails with
// BadConfiguration.
Result<void> check_hosts(const Cluster& cluster, const Plan& plan,
                         const std::vector<std::string>& hosts);
// The host of every rank, on every rank.
std::vector<std::string> hosts_of_ranks(Transport& transport);
std::string host_name();

}  // namespace pipewright
