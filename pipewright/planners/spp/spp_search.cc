#include "pipewright/planners/spp/spp_search.h"

#include <algorithm>
#include <tuple>

namespace pipewright {
namespace {

struct Entry {
  double load = 0;
  int stages = 0, first = 0, end = 0;
  auto order() const { return std::tuple(load, stages, first, end); }
};

std::vector<Entry> entries(const Partition& partition, int num_devices) {
  std::vector<Entry> list;
  for (int k = 1; k <= partition.max_stages(); ++k)
    for (int first = 0; first < num_devices; ++first)
      for (int end = first + 1; end <= num_devices; ++end)
        if (const double load = partition.load(k, first, end);
            load < kNoPartition)
          list.push_back({load, k, first, end});
  std::sort(list.begin(), list.end(), [](const Entry& a, const Entry& b) {
    return a.order() < b.order();
  });
  return list;
}

}  // namespace

SppCandidates spp_candidates(const SppCosts& costs,
                             const PartitionProblem& problem, Credits credits,
                             std::size_t max_candidates) {
  const Partition partition(problem);
  SppCandidates found;
  std::vector<SppCandidate>& best = found.best;
  const auto is_faster = [](const SppCandidate& a, const SppCandidate& b) {
    return std::tuple(a.promised, a.stages.size()) <
           std::tuple(b.promised, b.stages.size());
  };
  for (const Entry& entry : entries(partition, problem.num_devices)) {
    found.least_load = std::min(found.least_load, Seconds(entry.load));
    if (best.size() == max_candidates &&
        Seconds(entry.load) >= best.back().promised)
      break;
    SppCandidate candidate;
    candidate.costs = &costs;
    candidate.stages = partition.stages(entry.stages, entry.first, entry.end);
    candidate.loads = costs.loads(candidate.stages);
    candidate.credits = credits;
    candidate.load = Seconds(entry.load);
    candidate.promised =
        order_seconds(candidate.loads, costs.num_microbatches(), credits);
    best.insert(
        std::upper_bound(best.begin(), best.end(), candidate, is_faster),
        std::move(candidate));
    if (best.size() > max_candidates) best.pop_back();
  }
  return found;
}

}  // namespace pipewright
