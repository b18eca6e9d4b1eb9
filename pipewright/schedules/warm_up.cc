#include "pipewright/schedules/warm_up.h"

#include <algorithm>

#include "pipewright/base/index.h"

namespace pipewright {

std::vector<ComputeAction> warmed_up_order(StageId stage, int microbatches,
                                           int warm_up) {
  const int ahead = std::clamp(warm_up, 1, microbatches);
  std::vector<ComputeAction> order;
  order.reserve(2 * at(microbatches));
  for (MicrobatchId m(0); m.value < ahead; ++m)
    order.push_back({stage, m, ComputeKind::Forward});
  for (MicrobatchId m(0); m.value < microbatches; ++m) {
    order.push_back({stage, m, ComputeKind::Backward});
    if (m.value + ahead < microbatches)
      order.push_back({stage, m + ahead, ComputeKind::Forward});
  }
  return order;
}

Result<Schedule> warmed_up_schedule(int microbatches,
                                    const std::vector<int>& warm_up) {
  Orders orders;
  for (std::size_t s = 0; s < warm_up.size(); ++s)
    orders.push_back(warmed_up_order(StageId(s), microbatches, warm_up[s]));
  return Schedule::create(static_cast<int>(warm_up.size()), microbatches,
                          std::move(orders));
}

}  // namespace pipewright
