// The ranks that a test of several processes runs on.

#pragma once

#include "pipewright/runtime/channels/rank_transport.h"

namespace pipewright::testing {

RankSession& session();

}  // namespace pipewright::testing
