// DAPPLE: Fan et al., "DAPPLE: A Pipelined Data Parallel Approach for Training
// Large Models", PPoPP 2021. Stages with replicas, chosen for the latency of a
// synchronous step around the pivot stage Q, where transfers are stages, too:
//
//   L  = Tw + Ts + Te
//   Tw = sum of F up to Q        Ts = (M-1) (F_Q + B_Q)
//   Te = max over s of AR_s + (s <= Q ? sum of B from s to Q
//                                     : -sum of B from Q to s)
//
// Q begins as the last stage and moves to an earlier s whenever (M-1)(F_s+B_s)
// exceeds (M-1)(F_Q+B_Q) and what lies between. The search extends the best
// partial plan for (layers, devices) by a stage, the rest being one stage.
//
// Ours: devices are taken in the cluster's order instead of DAPPLE's three
// placements; of more than 96 layers only cuts about 1/96 of the time apart are
// tried, and of more than 16 devices replicas come in equal groups.

#include <algorithm>
#include <limits>
#include <optional>

#include "pipewright/base/index.h"
#include "pipewright/planners/choice.h"
#include "pipewright/planners/cost_table.h"
#include "pipewright/planners/list.h"
#include "pipewright/planners/stage_list.h"

namespace pipewright {
namespace {

constexpr int kMostCuts = 96, kMostGroups = 16;

// A compute stage or the transfer before it.
struct Part {
  double forward = 0, backward = 0, reduce = 0;
};

std::size_t pivot_of(const std::vector<Part>& parts, double repeats) {
  std::size_t pivot = parts.size() - 1;
  double between = 0;
  for (std::size_t s = parts.size() - 1; s-- > 0;) {
    const double own = repeats * (parts[s].forward + parts[s].backward);
    const double there =
        repeats * (parts[pivot].forward + parts[pivot].backward);
    if (own > there + between)
      pivot = s, between = 0;
    else
      between += parts[s].forward + parts[s].backward;
  }
  return pivot;
}

double latency_of(const std::vector<Part>& parts, int microbatches) {
  const double repeats = microbatches - 1;
  const std::size_t pivot = pivot_of(parts, repeats);
  double latency = repeats * (parts[pivot].forward + parts[pivot].backward);
  for (std::size_t s = 0; s <= pivot; ++s) latency += parts[s].forward;
  double tail = -std::numeric_limits<double>::infinity();
  double sum = 0;
  for (std::size_t s = pivot + 1; s-- > 0;) {
    sum += parts[s].backward;
    tail = std::max(tail, parts[s].reduce + sum);
  }
  sum = parts[pivot].backward;
  for (std::size_t s = pivot + 1; s < parts.size(); ++s) {
    sum += parts[s].backward;
    tail = std::max(tail, parts[s].reduce - sum);
  }
  return latency + std::max(0.0, tail);
}

class DappleSearch {
 public:
  DappleSearch(const CostTable& costs, const Problem& problem)
      : costs_(costs),
        cluster_(*problem.cluster),
        kind_(leading_kind(cluster_)),
        devices_(cluster_.num_devices()),
        microbatches_(problem.minibatch / costs.microbatch()),
        problem_(problem) {
    for (int g = 1; g <= devices_; ++g)
      if (devices_ % g == 0 && devices_ / g <= kMostGroups) {
        group_ = g;
        break;
      }
    add_cuts();
    slowest_ = slowest_link(cluster_, 0, devices_).value();
  }

  struct Found {
    std::vector<StageShape> stages;
    double latency = std::numeric_limits<double>::infinity();
  };

  Found search() {
    const int groups = devices_ / group_, cuts = static_cast<int>(cuts_.size());
    // best[c][g]: the first cuts_[c] layers on g groups.
    std::vector<std::vector<std::optional<Found>>> best(
        at(cuts), std::vector<std::optional<Found>>(at(groups) + 1));
    best[0][0] = Found{};
    Found answer = completed({}, 0, 0);
    for (int c = 0; c + 1 < cuts && !problem_.is_over(); ++c)
      for (int g = 0; g < groups; ++g) {
        if (!best[at(c)][at(g)]) continue;
        const std::vector<StageShape> partial = best[at(c)][at(g)]->stages;
        for (int next = c + 1; next + 1 < cuts; ++next)
          for (int more = 1; g + more < groups; ++more) {
            std::vector<StageShape> longer = partial;
            longer.push_back({cuts_[at(next)], more * group_});
            Found found = completed(longer, cuts_[at(next)], g + more);
            auto& cell = best[at(next)][at(g + more)];
            if (found.latency < answer.latency) answer = found;
            found.stages = std::move(longer);
            if (!cell || found.latency < cell->latency) cell = std::move(found);
          }
      }
    return answer;
  }

 private:
  void add_cuts() {
    const int layers = costs_.num_layers();
    const double total = costs_.compute(kind_, 0, layers).value();
    cuts_ = {0};
    double next = 0;
    for (int l = 1; l < layers; ++l) {
      const double time = costs_.compute(kind_, 0, l).value();
      if (layers <= kMostCuts || time >= next) {
        cuts_.push_back(l);
        next = time + total / kMostCuts;
      }
    }
    cuts_.push_back(layers);
  }

  // With one last stage for what is left.
  Found completed(std::vector<StageShape> stages, int done, int groups) {
    if (done < costs_.num_layers())
      stages.push_back({costs_.num_layers(), devices_ - groups * group_});
    parts_.clear();
    int first = 0, before = 0;
    for (const StageShape& stage : stages) {
      if (before > 0) parts_.push_back(transfer(first, before, stage.replicas));
      parts_.push_back(compute(first, stage));
      first = stage.end;
      before = stage.replicas;
    }
    Found found;
    found.latency = latency_of(parts_, microbatches_);
    found.stages = std::move(stages);
    return found;
  }

  Part compute(int first, const StageShape& stage) const {
    const double r = stage.replicas;
    const auto bytes =
        static_cast<double>(costs_.parameters(first, stage.end).value());
    return {costs_.forward(kind_, first, stage.end).value() / r,
            costs_.backward(kind_, first, stage.end).value() / r,
            2 * (r - 1) / r * bytes / slowest_};
  }

  Part transfer(int position, int from, int to) const {
    const double seconds =
        static_cast<double>(costs_.crossing(position).value()) /
        (slowest_ * std::min(from, to));
    return {seconds, seconds, 0};
  }

  const CostTable& costs_;
  const Cluster& cluster_;
  int kind_, devices_, microbatches_, group_ = 1;
  const Problem& problem_;
  double slowest_ = 0;
  std::vector<int> cuts_;
  std::vector<Part> parts_;
};

class DapplePlanner : public Planner {
 public:
  std::string name() const override { return "dapple"; }
  std::string summary() const override {
    return "least latency of a synchronous step around its pivot stage";
  }
  std::string source() const override {
    return "DAPPLE: A Pipelined Data Parallel Approach for Training Large "
           "Models, PPoPP 2021";
  }

  Result<Planned> plan(const Problem& problem) const override {
    if (is_asynchronous(problem.method))
      return bad_configuration("dapple synchronises every minibatch",
                               "plan it with --method sync");
    Choice choice(problem, name());
    for (int microbatch : problem.microbatches) {
      if (choice.is_over()) break;
      PIPEWRIGHT_TRY(
          const CostTable costs,
          CostTable::create(*problem.profile, *problem.cluster, microbatch));
      const auto found = DappleSearch(costs, problem).search();
      choice.consider(
          pipeline_of(found.stages, microbatch, problem, Replication::Split),
          {Seconds(0), Seconds(found.latency)});
    }
    return std::move(choice).best();
  }
};

}  // namespace

std::unique_ptr<Planner> dapple_planner() {
  return std::make_unique<DapplePlanner>();
}

}  // namespace pipewright
