#include "cli/plan_derived_times.h"

#include <algorithm>

namespace pipewright::cli {

std::vector<DerivedTimes> plan_derived_times(const Program& program,
                                             const Profile& profile,
                                             const Cluster& cluster) {
  SizesByKind used;
  for (const Operation& operation : program.operations) {
    const DeviceId device = program.workers[operation.worker.index()].device;
    used[cluster.kind_of(device).name].insert(
        std::max(1, operation.num_samples()));
  }
  return derived_times(profile, used);
}

std::string derived_line(const std::vector<DerivedTimes>& derived) {
  return derived.empty() ? "" : to_text(derived) + "\n";
}

Json to_json(const std::vector<DerivedTimes>& derived) {
  Json list = Json::array();
  for (const DerivedTimes& times : derived) {
    Json from = Json::array();
    for (const int size : times.from) from.push(size);
    list.push(Json::object()
                  .set("kind", times.kind)
                  .set("microbatch", times.microbatch)
                  .set("from", std::move(from)));
  }
  return list;
}

}  // namespace pipewright::cli
