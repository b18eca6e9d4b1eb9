// Piper's objective: Tarnawski, Narayanan and Phanishayee, "Piper:
// Multidimensional Planner for DNN Parallelization", NeurIPS 2021, without
// tensor parallelism. The slowest stage's time per microbatch is minimised,
// where a stage of layers i..j on d replicas with k devices from it on takes
//
//   T = (compute + 2 (c_i + c_j) / B) / d + 4 (d-1) w / (d N B)
//
//   c  bytes that cross a cut   w  parameter bytes
//   N  microbatches             B  bandwidth
//
// and holds the activations of ceil(k / d) microbatches, which must fit; d
// divides N. The table goes from the last layer to the first, because then k is
// known. Departures: a graph is taken in its topological order; kept
// activations are added up without regard to shared storage; and if nothing
// fits, the table is computed again without the memory limit, and the plan
// recomputes.

#include <algorithm>

#include "pipewright/base/index.h"
#include "pipewright/base/infinity.h"
#include "pipewright/planners/choice.h"
#include "pipewright/planners/cost_table.h"
#include "pipewright/planners/planner_registry.h"
#include "pipewright/planners/stage_list.h"
#include "pipewright/planners/time_limit.h"

namespace pipewright {
namespace {

constexpr double kMaxSteps = 1e9;  // some seconds

class PiperTable {
 public:
  PiperTable(const CostTable& costs, const Problem& problem, bool memory)
      : costs_(costs),
        layers_(costs.num_layers()),
        devices_(problem.cluster->num_devices()),
        kind_(leading_kind(*problem.cluster)),
        microbatches_(problem.minibatch / costs.microbatch()),
        bandwidth_(slowest_link(*problem.cluster, 0, devices_).value()),
        state_words_(2 + problem.optimizer_words),
        problem_(problem) {
    memory_ = Bytes::max();
    for (int d = 0; memory && d < devices_; ++d)
      memory_ = std::min(memory_, problem.memory_of(DeviceId(d)));
    kept_.push_back(Bytes(0));
    for (int l = 0; l < layers_; ++l)
      kept_.push_back(kept_.back() + costs.kept(l, l + 1));
  }

  struct Found {
    std::vector<StageShape> stages;
    double slowest = kInfinity;
  };

  Found solve() {
    cells_.assign((at(layers_) + 1) * at(devices_ + 1), {});
    cell(layers_, 0).slowest = 0;
    for (int first = layers_; first-- > 0;) {
      if (problem_.is_over()) return {};
      for (int end = first + 1; end <= layers_; ++end)
        for (int d = 1; d <= devices_; ++d)
          if (microbatches_ % d == 0 || microbatches_ < d)
            extend(first, end, d);
    }
    Found found;
    found.slowest = cell(0, devices_).slowest;
    if (found.slowest == kInfinity) return found;
    for (int first = 0, k = devices_; first < layers_;) {
      const Cell& here = cell(first, k);
      found.stages.push_back({here.end, here.replicas});
      first = here.end;
      k -= here.replicas;
    }
    return found;
  }

  static bool is_affordable(const CostTable& costs, int devices) {
    const double n = costs.num_layers(), d = devices;
    return n * n * d * d / 4 <= kMaxSteps;
  }

 private:
  struct Cell {
    double slowest = kInfinity;
    int end = -1, replicas = 0;
  };
  Cell& cell(int first, int k) {
    return cells_[at(first) * at(devices_ + 1) + at(k)];
  }

  void extend(int first, int end, int d) {
    const double time = stage_time(first, end, d);
    for (int k = d; k <= devices_; ++k) {
      if (!fits(first, end, d, k)) break;
      const double slowest = std::max(time, cell(end, k - d).slowest);
      if (slowest < cell(first, k).slowest) cell(first, k) = {slowest, end, d};
    }
  }

  double stage_time(int first, int end, int d) const {
    const auto crossing = static_cast<double>(
        (costs_.crossing(first) + costs_.crossing(end)).value());
    const auto weights =
        static_cast<double>(costs_.parameters(first, end).value());
    return (costs_.compute(kind_, first, end).value() +
            2 * crossing / bandwidth_) /
               d +
           4.0 * (d - 1) * weights / (d * microbatches_ * bandwidth_);
  }

  bool fits(int first, int end, int d, int k) const {
    const int in_flight = (k + d - 1) / d;
    return (kept_[at(end)] - kept_[at(first)]) * in_flight +
               costs_.parameters(first, end) * state_words_ <=
           memory_;
  }

  const CostTable& costs_;
  int layers_, devices_, kind_, microbatches_;
  double bandwidth_;
  int state_words_;
  const Problem& problem_;
  Bytes memory_;
  std::vector<Bytes> kept_;
  std::vector<Cell> cells_;
};

class PiperPlanner : public Planner {
 public:
  std::string name() const override { return "piper"; }
  std::string summary() const override {
    return "the fastest slowest stage per microbatch, within memory";
  }
  std::string source() const override {
    return "Piper: Multidimensional Planner for DNN Parallelization, "
           "NeurIPS 2021";
  }
  PlanningEffort effort() const override { return PlanningEffort::Quadratic; }

  Result<Planned> plan(const Problem& problem) const override {
    return best_over_sizes(
        problem, name(),
        [&](const CostTable& costs, Choice& choice) -> Result<void> {
          return consider(costs, problem, choice);
        });
  }

 private:
  static Result<void> consider(const CostTable& costs, const Problem& problem,
                               Choice& choice) {
    if (!PiperTable::is_affordable(costs, problem.cluster->num_devices()))
      return bad_configuration(
          "piper would take too long for " +
              std::to_string(costs.num_layers()) + " layers and " +
              std::to_string(problem.cluster->num_devices()) + " devices",
          "choose another planner");
    auto found = PiperTable(costs, problem, true).solve();
    if (found.stages.empty()) found = PiperTable(costs, problem, false).solve();
    if (found.stages.empty() && problem.is_over())
      choice.refuse(ended_before(problem, "piper was done"));
    if (found.stages.empty()) return {};
    const Seconds slowest(found.slowest);
    const int microbatch = costs.microbatch();
    for (Replication way : {Replication::Rotate, Replication::Split})
      choice.consider(pipeline_of(found.stages, microbatch, problem, way),
                      {slowest, slowest * (problem.minibatch / microbatch)});
    return {};
  }
};

}  // namespace

std::unique_ptr<Planner> piper_planner() {
  return std::make_unique<PiperPlanner>();
}

}  // namespace pipewright
