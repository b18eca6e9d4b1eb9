#include "pipewright/simulate/in_process_costs.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string>

namespace pipewright {

Result<Costs> in_process_costs(const Program& program, const Profile& profile,
                               const InProcessChannelCosts& channel) {
  std::int32_t last = 0;
  for (const WorkerProgram& worker : program.workers)
    last = std::max(last, worker.device.value);
  PIPEWRIGHT_TRY(const Cluster cluster,
                 load_cluster(std::to_string(last + 1) + "xcpu"));
  PIPEWRIGHT_TRY(Costs costs, costs_of(program, profile, cluster));
  for (std::size_t t = 0; t < costs.transfers.size(); ++t) {
    costs.transfers[t] = {};
    costs.transfers[t].bandwidth =
        BytesPerSecond(std::numeric_limits<double>::infinity());
    if (program.transfers[t].from != program.transfers[t].to)
      costs.transfers[t].latency = channel.latency;
  }
  for (std::size_t r = 0; r < costs.reductions.size(); ++r) {
    const Reduction& reduction = program.reductions[r];
    const std::set<WorkerId> workers(reduction.workers.begin(),
                                     reduction.workers.end());
    const auto count = static_cast<double>(workers.size());
    const double added =
        static_cast<double>(reduction.bytes.value()) * (count - 1);
    costs.reductions[r] = {};
    costs.reductions[r].latency = channel.latency;
    if (channel.bytes_added > 0)
      costs.reductions[r].latency +=
          Seconds(added / channel.bytes_added / count);
  }
  return costs;
}

}  // namespace pipewright
