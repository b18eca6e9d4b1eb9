// DAPPLE: Fan et al., "DAPPLE: A Pipelined Data Parallel Approach for Training
// Large Models", PPoPP 2021. Stages with replicas, chosen for the smallest
// latency of a synchronous step around the pivot stage Q. Transfers count as
// stages:
//
//   L  = Tw + Ts + Te
//   Tw = sum of F up to Q        Ts = (M-1) (F_Q + B_Q)
//   Te = max over s of AR_s + (s <= Q ? sum of B from s to Q
//                                     : -sum of B from Q to s)
//
// Q starts as the last stage and moves to an earlier s whenever (M-1)(F_s+B_s)
// exceeds (M-1)(F_Q+B_Q) plus the stages in between. The search extends the
// best partial plans for (layers, devices in use) by a stage, and completes
// each by one stage for the rest. Each new stage is placed fresh first, append
// first and scatter first (dapple_hosts.h).
//
// Departures:
//   - Which devices the three placements take is our choice in detail.
//   - A stage's reductions and transfers run at the bandwidth of the slowest
//     link between its hosts.
//   - The four best partial plans per number of layers and devices are kept,
//     not one for every set of devices.
//   - Of more than 96 layers only cuts about 1/96 of the time apart are tried.
//   - More than 16 devices are used in groups of equal size.
//   - The objective knows neither how many microbatches 1F1B has in flight nor
//     that transfers share network cards. So the four best partitions are
//     simulated, each with both of the paper's warm-up policies: S-s forwards
//     (1f1b) and about twice as many (1f1b-so), and with replicas that split
//     microbatches, as the paper's do, or take turns.
//   - Devices of one host share its network card.

#include "pipewright/planners/dapple/dapple.h"

#include <algorithm>
#include <numeric>

#include "pipewright/base/index.h"
#include "pipewright/base/infinity.h"
#include "pipewright/planners/choice.h"
#include "pipewright/planners/cost_table.h"
#include "pipewright/planners/dapple/dapple_hosts.h"
#include "pipewright/planners/planner_registry.h"
#include "pipewright/planners/stage_list.h"

namespace pipewright {
namespace {

constexpr int kMaxCuts = 96, kMaxGroups = 16;
constexpr std::size_t kMaxKept = 4, kMaxSimulated = 4;

// The times of a stage, or of the transfer before it.
struct StageTimes {
  double forward = 0, backward = 0, reduce = 0;

  double compute() const { return forward + backward; }
};

std::size_t pivot_of(const std::vector<StageTimes>& times, double repeats) {
  std::size_t pivot = times.size() - 1;
  double between = 0;
  for (std::size_t s = times.size() - 1; s-- > 0;) {
    if (repeats * times[s].compute() >
        repeats * times[pivot].compute() + between)
      pivot = s, between = 0;
    else
      between += times[s].compute();
  }
  return pivot;
}

double latency_of(const std::vector<StageTimes>& times, int microbatches) {
  const double repeats = microbatches - 1;
  const std::size_t pivot = pivot_of(times, repeats);
  double latency = repeats * times[pivot].compute();
  for (std::size_t s = 0; s <= pivot; ++s) latency += times[s].forward;
  double tail = -kInfinity;
  double sum = 0;
  for (std::size_t s = pivot + 1; s-- > 0;) {
    sum += times[s].backward;
    tail = std::max(tail, times[s].reduce + sum);
  }
  sum = times[pivot].backward;
  for (std::size_t s = pivot + 1; s < times.size(); ++s) {
    sum += times[s].backward;
    tail = std::max(tail, times[s].reduce - sum);
  }
  return latency + std::max(0.0, tail);
}

using Groups = DappleHosts::Groups;

// The stages so far, their times, and the latency if the rest is one stage.
struct Partial {
  std::vector<PipelineStage> stages;
  std::vector<StageTimes> times;
  Groups used, last;
  double latency = kInfinity;
};

class DappleSearch {
 public:
  DappleSearch(const CostTable& costs, const Problem& problem,
               std::size_t max_answers)
      : costs_(costs),
        max_answers_(max_answers),
        hosts_(*problem.cluster, kMaxGroups),
        kind_(leading_kind(*problem.cluster)),
        microbatches_(problem.minibatch / costs.microbatch()),
        problem_(problem) {
    add_cuts();
  }

  std::vector<DappleChoice> search() {
    const int groups = hosts_.num_groups();
    const int cuts = static_cast<int>(cuts_.size());
    // best[c][g]: the first cuts_[c] layers on g groups.
    best_.assign(at(cuts), std::vector<std::vector<Partial>>(at(groups) + 1));
    Partial nothing;
    nothing.used = nothing.last = hosts_.none();
    nothing.latency = completed(nothing, 0);
    add_answer(nothing);
    best_[0][0] = {nothing};
    for (int c = 0; c + 1 < cuts; ++c)
      for (int g = 0; g < groups; ++g)
        for (const Partial& partial : best_[at(c)][at(g)])
          for (int more = 1; g + more < groups; ++more) {
            if (problem_.is_over()) return answers_;
            extend(partial, c, g, more);
          }
    return answers_;
  }

 private:
  void add_cuts() {
    const int layers = costs_.num_layers();
    const double total = costs_.compute(kind_, 0, layers).value();
    cuts_ = {0};
    double next = 0;
    for (int l = 1; l < layers; ++l) {
      const double time = costs_.compute(kind_, 0, l).value();
      if (layers <= kMaxCuts || time >= next) {
        cuts_.push_back(l);
        next = time + total / kMaxCuts;
      }
    }
    cuts_.push_back(layers);
  }

  // Extends the plan by a stage of `more` groups, placed in each way, that ends
  // at each cut.
  void extend(const Partial& partial, int c, int g, int more) {
    std::vector<Groups> tried;
    for (DapplePlacement placement :
         {DapplePlacement::FreshFirst, DapplePlacement::AppendFirst,
          DapplePlacement::ScatterFirst}) {
      const Groups taken = hosts_.placed(partial.used, more, placement);
      if (std::find(tried.begin(), tried.end(), taken) != tried.end()) continue;
      tried.push_back(taken);
      for (int next = c + 1; next + 1 < static_cast<int>(cuts_.size()); ++next)
        consider(partial, taken, next, best_[at(next)][at(g + more)]);
    }
  }

  void consider(const Partial& partial, const Groups& taken, int next,
                std::vector<Partial>& cell) {
    Partial longer;
    longer.times = partial.times;
    longer.used = partial.used;
    for (std::size_t h = 0; h < taken.size(); ++h) longer.used[h] += taken[h];
    longer.last = taken;
    const int first = end_of(partial), end = cuts_[at(next)];
    append(longer.times, partial.last, taken, first, end);
    longer.latency = completed(longer, end);
    longer.stages = partial.stages;
    longer.stages.push_back(
        {end, -1, hosts_.devices(partial.used, taken), false});
    if (answers_.size() < max_answers_ ||
        longer.latency < answers_.back().latency)
      add_answer(longer);
    const auto same = std::find_if(
        cell.begin(), cell.end(),
        [&](const Partial& other) { return other.used == longer.used; });
    if (same == cell.end()
            ? cell.size() >= kMaxKept && longer.latency >= cell.back().latency
            : longer.latency >= same->latency)
      return;
    if (same != cell.end()) cell.erase(same);
    cell.insert(std::upper_bound(cell.begin(), cell.end(), longer,
                                 [](const Partial& a, const Partial& b) {
                                   return a.latency < b.latency;
                                 }),
                longer);
    if (cell.size() > kMaxKept) cell.pop_back();
  }

  static int end_of(const Partial& partial) {
    return partial.stages.empty() ? 0 : partial.stages.back().end;
  }

  // Appends the times of the stage and of the transfer before it.
  void append(std::vector<StageTimes>& times, const Groups& before,
              const Groups& taken, int first, int end) const {
    const double r = replicas(taken);
    if (first > 0) {
      const double seconds =
          static_cast<double>(costs_.crossing(first).value()) /
          (hosts_.between(before, taken) * hosts_.streams(before, taken));
      times.push_back({seconds, seconds, 0});
    }
    const auto bytes =
        static_cast<double>(costs_.parameters(first, end).value());
    times.push_back({costs_.forward(kind_, first, end).value() / r,
                     costs_.backward(kind_, first, end).value() / r,
                     2 * (r - 1) / r * bytes / hosts_.inside(taken)});
  }

  double replicas(const Groups& taken) const {
    return hosts_.group_size() *
           std::accumulate(taken.begin(), taken.end(), 0.0);
  }

  // The latency with one last stage for the layers from `done` on.
  double completed(const Partial& partial, int done) {
    times_ = partial.times;
    append(times_, partial.last, hosts_.rest(partial.used), done,
           costs_.num_layers());
    return latency_of(times_, microbatches_);
  }
  // Keeps the partial plan with one last stage for the rest.
  void add_answer(const Partial& partial) {
    DappleChoice choice{partial.stages, partial.latency};
    choice.stages.push_back(
        {costs_.num_layers(), -1,
         hosts_.devices(partial.used, hosts_.rest(partial.used)), false});
    answers_.insert(
        std::upper_bound(answers_.begin(), answers_.end(), choice,
                         [](const DappleChoice& a, const DappleChoice& b) {
                           return a.latency < b.latency;
                         }),
        std::move(choice));
    if (answers_.size() > max_answers_) answers_.pop_back();
  }

  const CostTable& costs_;
  const std::size_t max_answers_;
  const DappleHosts hosts_;
  int kind_, microbatches_;
  const Problem& problem_;
  std::vector<int> cuts_;
  std::vector<std::vector<std::vector<Partial>>> best_;
  std::vector<DappleChoice> answers_;  // the best first
  std::vector<StageTimes> times_;      // of completed(), to reuse its memory
};

class DapplePlanner : public Planner {
 public:
  std::string name() const override { return "dapple"; }
  std::string summary() const override {
    return "smallest latency of a synchronous step around its pivot stage";
  }
  std::string source() const override {
    return "DAPPLE: A Pipelined Data Parallel Approach for Training Large "
           "Models, PPoPP 2021";
  }
  PlanningEffort effort() const override { return PlanningEffort::Search; }

  Result<Planned> plan(const Problem& problem) const override {
    if (is_asynchronous(problem.method))
      return bad_configuration("dapple plans synchronous training only",
                               "use --method sync");
    return best_over_sizes(
        problem, name(),
        [&](const CostTable& costs, Choice& choice) -> Result<void> {
          Pipeline pipeline;
          pipeline.microbatch = costs.microbatch();
          for (const DappleChoice& found :
               dapple_choices(costs, problem, kMaxSimulated))
            for (const char* schedule : {"1f1b", "1f1b-so"})
              for (Replication way :
                   {Replication::Split, Replication::Rotate}) {
                pipeline.stages = found.stages;
                pipeline.schedule = schedule;
                pipeline.replication = way;
                choice.consider(pipeline, {Seconds(0), Seconds(found.latency)});
              }
          return {};
        });
  }
};

}  // namespace

std::vector<DappleChoice> dapple_choices(const CostTable& costs,
                                         const Problem& problem,
                                         std::size_t count) {
  return DappleSearch(costs, problem, count).search();
}

std::unique_ptr<Planner> dapple_planner() {
  return std::make_unique<DapplePlanner>();
}

}  // namespace pipewright
