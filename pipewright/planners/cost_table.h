// Costs of consecutive layers at one microbatch size, by prefix sums, for
// planners that cut a chain of layers. A graph is taken in its topological
// order; what crosses a position is every storage written before it and used at
// or after it.

#pragma once

#include <utility>
#include <vector>

#include "pipewright/base/index.h"
#include "pipewright/base/result.h"
#include "pipewright/base/units.h"
#include "pipewright/cluster/cluster.h"
#include "pipewright/profile/profile.h"

namespace pipewright {

class CostTable {
 public:
  // With the times of every kind in the cluster. Fails if the profile lacks
  // one.
  static Result<CostTable> create(const Profile& profile,
                                  const Cluster& cluster, int microbatch);

  // The same chain in groups of consecutive layers, each in the place of a
  // layer: cuts are at `positions` only (cut_positions.h).
  CostTable grouped(const std::vector<int>& positions) const;

  int num_layers() const { return num_layers_; }
  int microbatch() const { return microbatch_; }

  // Layers first..end-1 on a kind (index into Cluster::kinds), one microbatch.
  Seconds forward(int kind, int first, int end) const {
    return range(forward_, kind, first, end);
  }
  Seconds backward(int kind, int first, int end) const {
    return range(backward_, kind, first, end);
  }
  // The input-gradient half of it, which the layers before wait for.
  Seconds backward_input(int kind, int first, int end) const {
    return range(backward_input_, kind, first, end);
  }
  Seconds compute(int kind, int first, int end) const {
    return forward(kind, first, end) + backward(kind, first, end);
  }
  Seconds update(int kind, int first, int end) const {
    return range(update_, kind, first, end);
  }
  // A parameter that two layers share counts twice.
  Bytes parameters(int first, int end) const {
    return parameters_[at(end)] - parameters_[at(first)];
  }
  // What the layers keep for backward, each storage once.
  Bytes kept(int first, int end) const;
  // kept(first, end) for every end from `first` on, in one pass.
  std::vector<Bytes> kept_from(int first) const;
  // kept(end - n, end) for n = 0, 1, ... until it exceeds the limit.
  std::vector<Bytes> kept_until(int end, Bytes limit) const;
  // What crosses the position before layer `position`: activations in one
  // direction, gradients of the same size in the other.
  Bytes crossing(int position) const { return crossing_[at(position)]; }

 private:
  static Seconds range(const std::vector<std::vector<double>>& sums, int kind,
                       int first, int end) {
    const auto& sum = sums[at(kind)];
    return Seconds(sum[at(end)] - sum[at(first)]);
  }

  int num_layers_ = 0, microbatch_ = 0;
  // By kind.
  std::vector<std::vector<double>> forward_, backward_, backward_input_,
      update_;
  std::vector<Bytes> parameters_, crossing_;
  // What each layer keeps: storages (-1: private to it) with their bytes.
  std::vector<std::vector<std::pair<int, Bytes>>> keeps_;
};

}  // namespace pipewright
