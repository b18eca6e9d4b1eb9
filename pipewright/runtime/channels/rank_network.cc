#include "pipewright/runtime/channels/rank_network.h"

#include <numeric>

#include "pipewright/base/check.h"
#include "pipewright/runtime/channels/backoff.h"

namespace pipewright {

void RequestList::wait() {
  for (Backoff backoff;; backoff.pause()) {
    test([](std::size_t) {});
    if (empty()) return;
  }
}

void MessageSpace::all_reduce(RequestList&, const at::Tensor&) {
  PIPEWRIGHT_CHECK(false, "this network does not add up");
}

std::unique_ptr<MessageSpace> RankNetwork::space_of_all() {
  std::vector<int> ranks(static_cast<std::size_t>(size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return space(ranks);
}

}  // namespace pipewright
