// torchgpipe's balance: Kim et al., "torchgpipe: On-the-fly Pipeline
// Parallelism for Training Giant Models", arXiv 2004.09910, 2020, which uses
// the block partition of Barany and Grinberg, "Block partitions of sequences",
// Israel Journal of Mathematics 206, 2015. It starts from equal numbers of
// layers. Then the smallest block takes a layer from its neighbour in the
// direction of the largest block, until the largest and the smallest differ by
// at most the largest layer.
//
// As in torchgpipe, costs are first scaled to 0..1, so that a constant cost of
// all layers does not count. Departures: a block keeps its last layer, and the
// number of moves is bounded, because the termination proof fails for costs of
// zero.

#include "pipewright/planners/baselines/torchgpipe.h"

#include <algorithm>
#include <cstdlib>

#include "pipewright/base/index.h"
#include "pipewright/planners/choice.h"
#include "pipewright/planners/cost_table.h"
#include "pipewright/planners/planner_registry.h"
#include "pipewright/planners/stage_list.h"

namespace pipewright {
namespace {

std::vector<double> scaled(std::vector<double> costs) {
  const auto [low, high] = std::minmax_element(costs.begin(), costs.end());
  const double least = *low, range = *high - *low;
  for (double& cost : costs) cost = range > 0 ? (cost - least) / range : 0;
  return costs;
}

class Blocks {
 public:
  Blocks(const std::vector<double>& costs, int count) : sums_(1, 0.0) {
    for (double cost : costs) sums_.push_back(sums_.back() + cost);
    const int layers = static_cast<int>(costs.size());
    for (int b = 0; b < count; ++b) ends_.push_back(layers * (b + 1) / count);
  }

  int count() const { return static_cast<int>(ends_.size()); }
  const std::vector<int>& ends() const { return ends_; }
  int begin(int b) const { return b == 0 ? 0 : ends_[at(b - 1)]; }
  double size(int b) const {
    return sums_[at(ends_[at(b)])] - sums_[at(begin(b))];
  }
  int largest() const {
    int best = 0;
    for (int b = 1; b < count(); ++b)
      if (size(b) >= size(best)) best = b;
    return best;
  }
  // The smallest block; of equal ones the one nearest to `from`.
  int smallest(int from) const {
    int best = 0;
    for (int b = 1; b < count(); ++b)
      if (size(b) < size(best) ||
          (size(b) == size(best) && std::abs(b - from) < std::abs(best - from)))
        best = b;
    return best;
  }
  // Block `to` takes a layer from its neighbour towards `from`; false if the
  // neighbour has only one.
  bool take(int to, int from) {
    const int neighbour = from < to ? to - 1 : to + 1;
    if (ends_[at(neighbour)] - begin(neighbour) < 2) return false;
    if (from < to)
      --ends_[at(neighbour)];
    else
      ++ends_[at(to)];
    return true;
  }

 private:
  std::vector<double> sums_;
  std::vector<int> ends_;
};

class TorchgpipePlanner : public Planner {
 public:
  std::string name() const override { return "torchgpipe"; }
  std::string summary() const override {
    return "block partition of layer times, with GPipe's schedule";
  }
  std::string source() const override {
    return "torchgpipe: On-the-fly Pipeline Parallelism for Training Giant "
           "Models, arXiv 2020";
  }
  PlanningEffort effort() const override { return PlanningEffort::FixedShape; }

  Result<Planned> plan(const Problem& problem) const override {
    const int layers = problem.profile->num_layers();
    const int stages = std::min(problem.cluster->num_devices(), layers);
    const int kind = leading_kind(*problem.cluster);
    return best_over_sizes(
        problem, name(),
        [&](const CostTable& costs, Choice& choice) -> Result<void> {
          std::vector<double> times;
          for (int l = 0; l < layers; ++l)
            times.push_back(costs.compute(kind, l, l + 1).value());
          Pipeline pipeline = pipeline_of(block_partition(times, stages),
                                          costs.microbatch(), problem);
          if (!is_asynchronous(problem.method)) pipeline.schedule = "gpipe";
          choice.consider(pipeline);
          return {};
        });
  }
};

}  // namespace

std::vector<int> block_partition(const std::vector<double>& costs, int blocks) {
  Blocks partition(scaled(costs), blocks);
  const std::size_t max_moves = costs.size() * costs.size() * at(blocks);
  for (std::size_t move = 0; move < max_moves; ++move) {
    const int p = partition.largest(), q = partition.smallest(p);
    if (partition.size(p) <= partition.size(q) + 1) break;
    if (!partition.take(q, p)) break;
  }
  return partition.ends();
}

std::unique_ptr<Planner> torchgpipe_planner() {
  return std::make_unique<TorchgpipePlanner>();
}

}  // namespace pipewright
