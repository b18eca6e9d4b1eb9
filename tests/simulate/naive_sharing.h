// Fair sharing for the naive simulator: bottleneck after bottleneck, the
// resource (or own link) that offers least per transfer fixes its transfers. A
// ring counts once for each of its links. Shares no code with fair_share.h.

#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "pipewright/cluster/cluster.h"

namespace pipewright::test {

// One minibatch of a reduction.
struct NaiveRing {
  double handed = -1;  // all parts; -1: not yet
  double off_links = -1;
  double end = -1;  // with the latency
  double left = 0, since = 0, rate = 0;
  bool running = false;
};

// When it would be through if rates stayed as they are.
template <typename Carried>
double end_of(const Carried& carried) {
  return carried.left > 0 ? carried.since + carried.left / carried.rate
                          : carried.since;
}

using NaivePool = std::pair<int, bool>;  // resource, direction
struct NaiveSharer {
  double* left;
  double* since;
  double* rate;
  double limit;
  std::map<NaivePool, int> claims;
};

// One link more.
inline void claim_naively(const std::vector<Link::Use>& uses,
                          const std::vector<SharedResource>& resources,
                          NaiveSharer& sharer) {
  std::vector<NaivePool> list;
  for (const Link::Use& use : uses) {
    const bool half =
        resources[std::size_t(use.resource)].duplex == Duplex::Half;
    list.emplace_back(use.resource, half ? false : use.upstream);
  }
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  for (const NaivePool& pool : list) ++sharer.claims[pool];
}

inline void share_naively(std::vector<NaiveSharer> open,
                          const std::vector<SharedResource>& resources,
                          double now) {
  std::map<NaivePool, double> left;
  for (std::size_t r = 0; r < resources.size(); ++r)
    left[{int(r), false}] = left[{int(r), true}] =
        resources[r].bandwidth.value();
  while (!open.empty()) {
    std::map<NaivePool, int> users;
    for (auto& sharer : open)
      for (auto& [pool, count] : sharer.claims) users[pool] += count;
    double least = std::numeric_limits<double>::infinity();
    for (auto& sharer : open) least = std::min(least, sharer.limit);
    for (auto& [pool, count] : users)
      least = std::min(least, left[pool] / count);
    std::vector<NaiveSharer> later, fixed;
    for (auto& sharer : open) {
      bool bound = sharer.limit <= least;
      for (auto& [pool, count] : sharer.claims)
        bound |= left[pool] / users[pool] <= least;
      (bound ? fixed : later).push_back(sharer);
    }
    for (auto& sharer : fixed) {
      for (auto& [pool, count] : sharer.claims) left[pool] -= least * count;
      if (least == *sharer.rate) continue;
      *sharer.left =
          std::max(0.0, *sharer.left - *sharer.rate * (now - *sharer.since));
      *sharer.since = now;
      *sharer.rate = least;
    }
    open = later;
  }
}

}  // namespace pipewright::test
