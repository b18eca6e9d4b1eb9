// Before the first step all ranks compare what they are about to do: an older
// plan file on one host, or a different seed, would silently train nonsense.

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/runtime/channels/transport.h"

namespace pipewright {

// What must be equal on every rank, by name: "plan" and its text. Long texts
// are compared by their hash.
using Intentions = std::vector<std::pair<std::string, std::string>>;

// Fails with the same error on every rank: WorkersDisagree, naming the ranks,
// their hosts and what differs; or the error of a rank that could not say what
// it is about to do.
Result<void> agree(Transport& transport, const Result<Intentions>& mine);

// What each rank gives, by rank, on every rank.
std::vector<std::string> texts_of_ranks(Transport& transport, std::string mine);
std::string host_name();

}  // namespace pipewright
