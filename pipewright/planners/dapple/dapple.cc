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
// partial plans for (layers, devices in use) by a stage, the rest being one
// stage; each new stage is placed fresh first, append first and scatter first
// (dapple_hosts.h).
//
// Ours: which devices the three placements take in detail; that a stage's sums
// and transfers go at the pace of the slowest link between its hosts; that of
// the partial plans with as many layers and devices the four best are kept, not
// one for every set of devices; that of more than 96 layers only cuts about
// 1/96 of the time apart are tried, and that of more than 16 devices replicas
// come in equal groups.

#include <algorithm>
#include <limits>
#include <numeric>

#include "pipewright/base/index.h"
#include "pipewright/planners/choice.h"
#include "pipewright/planners/cost_table.h"
#include "pipewright/planners/dapple/dapple_hosts.h"
#include "pipewright/planners/planner_registry.h"
#include "pipewright/planners/stage_list.h"

namespace pipewright {
namespace {

constexpr int kMostCuts = 96, kMostGroups = 16;
constexpr std::size_t kMostKept = 4;

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

using Groups = DappleHosts::Groups;

// Stages so far, the parts that they make, and the latency if all the rest were
// one more stage.
struct Partial {
  std::vector<PipelineStage> stages;
  std::vector<Part> parts;
  Groups used, last;
  double latency = std::numeric_limits<double>::infinity();
};

class DappleSearch {
 public:
  DappleSearch(const CostTable& costs, const Problem& problem)
      : costs_(costs),
        hosts_(*problem.cluster, kMostGroups),
        kind_(leading_kind(*problem.cluster)),
        microbatches_(problem.minibatch / costs.microbatch()),
        problem_(problem) {
    add_cuts();
  }

  Partial search() {
    const int groups = hosts_.num_groups();
    const int cuts = static_cast<int>(cuts_.size());
    // best[c][g]: the first cuts_[c] layers on g groups.
    best_.assign(at(cuts), std::vector<std::vector<Partial>>(at(groups) + 1));
    Partial nothing;
    nothing.used = nothing.last = hosts_.none();
    nothing.latency = completed(nothing, 0);
    answer_ = with_rest(nothing);
    best_[0][0] = {nothing};
    for (int c = 0; c + 1 < cuts; ++c)
      for (int g = 0; g < groups; ++g)
        for (const Partial& partial : best_[at(c)][at(g)])
          for (int more = 1; g + more < groups; ++more) {
            if (problem_.is_over()) return answer_;
            extend(partial, c, g, more);
          }
    return answer_;
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

  // By a stage of `more` groups, placed in each way, that ends at each cut.
  void extend(const Partial& partial, int c, int g, int more) {
    std::vector<Groups> tried;
    for (DapplePlacing way :
         {DapplePlacing::FreshFirst, DapplePlacing::AppendFirst,
          DapplePlacing::ScatterFirst}) {
      const Groups taken = hosts_.placed(partial.used, more, way);
      if (std::find(tried.begin(), tried.end(), taken) != tried.end()) continue;
      tried.push_back(taken);
      for (int next = c + 1; next + 1 < static_cast<int>(cuts_.size()); ++next)
        consider(partial, taken, next, best_[at(next)][at(g + more)]);
    }
  }

  void consider(const Partial& partial, const Groups& taken, int next,
                std::vector<Partial>& cell) {
    Partial longer;
    longer.parts = partial.parts;
    longer.used = partial.used;
    for (std::size_t h = 0; h < taken.size(); ++h) longer.used[h] += taken[h];
    longer.last = taken;
    const int first = end_of(partial), end = cuts_[at(next)];
    append(longer.parts, partial.last, taken, first, end);
    longer.latency = completed(longer, end);
    const auto same = std::find_if(
        cell.begin(), cell.end(),
        [&](const Partial& other) { return other.used == longer.used; });
    if (same == cell.end()
            ? cell.size() >= kMostKept && longer.latency >= cell.back().latency
            : longer.latency >= same->latency)
      return;
    longer.stages = partial.stages;
    longer.stages.push_back(
        {end, -1, hosts_.devices(partial.used, taken), false});
    if (longer.latency < answer_.latency) answer_ = with_rest(longer);
    if (same != cell.end()) cell.erase(same);
    cell.insert(std::upper_bound(cell.begin(), cell.end(), longer,
                                 [](const Partial& a, const Partial& b) {
                                   return a.latency < b.latency;
                                 }),
                longer);
    if (cell.size() > kMostKept) cell.pop_back();
  }

  static int end_of(const Partial& partial) {
    return partial.stages.empty() ? 0 : partial.stages.back().end;
  }

  // The stage and the transfer before it.
  void append(std::vector<Part>& parts, const Groups& before,
              const Groups& taken, int first, int end) const {
    const double r = replicas(taken);
    if (first > 0) {
      const double seconds =
          static_cast<double>(costs_.crossing(first).value()) /
          (hosts_.between(before, taken) * std::min(replicas(before), r));
      parts.push_back({seconds, seconds, 0});
    }
    const auto bytes =
        static_cast<double>(costs_.parameters(first, end).value());
    parts.push_back({costs_.forward(kind_, first, end).value() / r,
                     costs_.backward(kind_, first, end).value() / r,
                     2 * (r - 1) / r * bytes / hosts_.inside(taken)});
  }

  double replicas(const Groups& taken) const {
    return hosts_.group_size() *
           std::accumulate(taken.begin(), taken.end(), 0.0);
  }

  // With one last stage for the layers from `done` on.
  double completed(const Partial& partial, int done) {
    parts_ = partial.parts;
    append(parts_, partial.last, hosts_.rest(partial.used), done,
           costs_.num_layers());
    return latency_of(parts_, microbatches_);
  }
  Partial with_rest(Partial partial) const {
    partial.stages.push_back(
        {costs_.num_layers(), -1,
         hosts_.devices(partial.used, hosts_.rest(partial.used)), false});
    return partial;
  }

  const CostTable& costs_;
  const DappleHosts hosts_;
  int kind_, microbatches_;
  const Problem& problem_;
  std::vector<int> cuts_;
  std::vector<std::vector<std::vector<Partial>>> best_;
  Partial answer_;
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
  PlanningEffort effort() const override { return PlanningEffort::Search; }

  Result<Planned> plan(const Problem& problem) const override {
    if (is_asynchronous(problem.method))
      return bad_configuration("dapple synchronises every minibatch",
                               "plan it with --method sync");
    return best_over_sizes(
        problem, name(),
        [&](const CostTable& costs, Choice& choice) -> Result<void> {
          const Partial found = DappleSearch(costs, problem).search();
          Pipeline pipeline;
          pipeline.microbatch = costs.microbatch();
          pipeline.stages = found.stages;
          choice.consider(pipeline, {Seconds(0), Seconds(found.latency)});
          return {};
        });
  }
};

}  // namespace

std::unique_ptr<Planner> dapple_planner() {
  return std::make_unique<DapplePlanner>();
}

}  // namespace pipewright
