// DAPPLE's objective, computed a second time, and its smallest value over all
// partitions of a chain on the devices of one host.

#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "pipewright/planners/cost_table.h"

namespace pipewright {

struct Piece {
  double forward = 0, backward = 0, reduce = 0;
};

// L = Tw + Ts + Te around the pivot, written as in the paper.
inline double paper_latency(const std::vector<Piece>& p, int microbatches) {
  const double again = microbatches - 1;
  const auto both = [&](std::size_t s) { return p[s].forward + p[s].backward; };
  std::size_t q = p.size() - 1;
  for (std::size_t s = p.size() - 1; s-- > 0;) {
    double between = 0;
    for (std::size_t a = s + 1; a < q; ++a) between += both(a);
    if (again * both(s) > again * both(q) + between) q = s;
  }
  double warm_up = 0, end = 0;
  for (std::size_t s = 0; s <= q; ++s) warm_up += p[s].forward;
  for (std::size_t s = 0; s < p.size(); ++s) {
    double backwards = 0;
    for (std::size_t a = std::min(s, q); a <= std::max(s, q); ++a)
      backwards += p[a].backward;
    end = std::max(end, p[s].reduce + (s <= q ? backwards : -backwards));
  }
  return warm_up + again * both(q) + end;
}

// Stages end at `ends` and have `replicas` devices of one host.
inline double force_latency(const CostTable& costs,
                            const std::vector<int>& ends,
                            const std::vector<int>& replicas, double bandwidth,
                            int microbatches) {
  std::vector<Piece> pieces;
  int first = 0;
  for (std::size_t s = 0; s < ends.size(); ++s) {
    const double r = replicas[s];
    if (s > 0) {
      const double transfer =
          static_cast<double>(costs.crossing(first).value()) /
          (bandwidth * std::min(replicas[s - 1], replicas[s]));
      pieces.push_back({transfer, transfer, 0});
    }
    pieces.push_back(
        {costs.forward(0, first, ends[s]).value() / r,
         costs.backward(0, first, ends[s]).value() / r,
         2 * (r - 1) / r *
             static_cast<double>(costs.parameters(first, ends[s]).value()) /
             bandwidth});
    first = ends[s];
  }
  return paper_latency(pieces, microbatches);
}

// All cuts with all numbers of replicas that use all devices.
inline double least_latency(const CostTable& costs, int devices,
                            double bandwidth, int microbatches) {
  double least = 1e300;
  std::vector<int> ends, replicas;
  const std::function<void(int, int)> next = [&](int layer, int left) {
    if (layer == costs.num_layers() && left == 0)
      least = std::min(
          least, force_latency(costs, ends, replicas, bandwidth, microbatches));
    for (int end = layer + 1; end <= costs.num_layers(); ++end)
      for (int r = 1; r <= left; ++r) {
        ends.push_back(end);
        replicas.push_back(r);
        next(end, left - r);
        ends.pop_back();
        replicas.pop_back();
      }
  };
  next(0, devices);
  return least;
}

}  // namespace pipewright
