#include "cli/validate/memory_proof.h"

#include "pipewright/base/text.h"
#include "pipewright/plan/memory/memory_bound.h"

namespace pipewright::cli {

Result<std::vector<Bytes>> device_memory(const Program& program,
                                         const Cluster& cluster) {
  std::vector<Bytes> limits;
  for (const WorkerProgram& worker : program.workers) {
    if (worker.device.is_none() || worker.device.value >= cluster.num_devices())
      return bad_configuration(
          "the plan uses device " + std::to_string(worker.device.value) +
              ", but cluster \"" + cluster.name() + "\" has " +
              std::to_string(cluster.num_devices()) + " devices",
          "use the cluster that the plan was made for");
    limits.push_back(usable_memory(cluster.kind_of(worker.device)));
  }
  return limits;
}

Result<std::string> memory_proof(const Program& program,
                                 const std::vector<Bytes>& limits) {
  if (auto fine = check_memory(program, limits); !fine) return fine.error();
  const auto bounds = memory_bounds(program);
  std::size_t tightest = 0;
  for (std::size_t w = 0; w < bounds.size(); ++w)
    if (limits[w] - bounds[w].peak.total() <
        limits[tightest] - bounds[tightest].peak.total())
      tightest = w;
  return "worker " + std::to_string(tightest) + " uses at most " +
         to_text(bounds[tightest].peak.total()) + " of " +
         to_text(limits[tightest]) + ", at " +
         to_text(bounds[tightest].action) + "; " +
         to_text(bounds[tightest].peak);
}

}  // namespace pipewright::cli
