// Costs of runs of layers at one microbatch size, by prefix sums: what the
// chain planners search over. A graph is taken in its topological order; what
// crosses a position is every storage made before it and used at or behind it.

#pragma once

#include <utility>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/base/units.h"
#include "pipewright/cluster/cluster.h"
#include "pipewright/profile/profile.h"

namespace pipewright {

class CostTable {
 public:
  // Times of every kind in the cluster. Fails if the profile lacks one.
  static Result<CostTable> create(const Profile& profile,
                                  const Cluster& cluster, int microbatch);

  int num_layers() const { return num_layers_; }
  int microbatch() const { return microbatch_; }

  // Layers first..end-1 on a kind (index into Cluster::kinds), one microbatch.
  Seconds forward(int kind, int first, int end) const {
    return range(forward_, kind, first, end);
  }
  Seconds backward(int kind, int first, int end) const {
    return range(backward_, kind, first, end);
  }
  // The half of it that the layers before wait for.
  Seconds backward_input(int kind, int first, int end) const {
    return range(backward_input_, kind, first, end);
  }
  Seconds compute(int kind, int first, int end) const {
    return forward(kind, first, end) + backward(kind, first, end);
  }
  Seconds update(int kind, int first, int end) const {
    return range(update_, kind, first, end);
  }
  // A parameter that two layers share counts in both.
  Bytes parameters(int first, int end) const {
    return parameters_[at(end)] - parameters_[at(first)];
  }
  // Kept for backward by the layers, each storage once within the run.
  Bytes kept(int first, int end) const;
  // kept(first, end) for every end from `first` on, in one walk.
  std::vector<Bytes> kept_from(int first) const;
  // What crosses the position before layer `position`: activations one way,
  // gradients of the same size the other.
  Bytes crossing(int position) const { return crossing_[at(position)]; }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
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
