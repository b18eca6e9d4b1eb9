// zero-bubble: searches for an order, given times, transfers and memory.
//
// Qi, Wan, Huang, Lin, "Zero Bubble Pipeline Parallelism", ICLR 2024, section
// 3, searches with heuristics and with an integer program. The search here is
// ours. It compares
//   - the published orders (1F1B, ZB-H1, ZB-H2; for a V: ZB-V, V-Half, V-Min)
//     that fit the memory,
//   - list scheduling with several rules (zero_bubble_greedy.h),
//   - the best of these after local search (zero_bubble_improve.h),
// and stops at a lower bound. So it is never worse than the published orders.
// How much it tries depends only on the number of actions: the same request has
// the same result everywhere.
//
// One stage per worker; two in a V if the request has times for twice as many
// stages as workers. Two stages, three microbatches, the second stage twice as
// long (F=I=W=2), memory for two:
//
//   0: F0 F1          I0 W0 F2    I1 W1             I2 W2
//   1:    F0--- I0--- F1--- I1--- W0--- F2--- I2--- W1--- W2---

#include <algorithm>
#include <cmath>
#include <utility>

#include "pipewright/base/index.h"
#include "pipewright/schedules/generators.h"
#include "pipewright/schedules/zero_bubble_clock.h"
#include "pipewright/schedules/zero_bubble_greedy.h"
#include "pipewright/schedules/zero_bubble_improve.h"
#include "pipewright/schedules/zero_bubble_problem.h"

namespace pipewright {
namespace zb {
namespace {

// The number of actions that local search times over all tries, and its tries.
constexpr int kTimedActions = 3'000'000;
constexpr int kMinTries = 60, kMaxTries = 3'000;
constexpr std::size_t kImproved = 3;  // orders that local search starts from

struct Candidate {
  Order order;
  Cost cost;
};

class Search {
 public:
  explicit Search(const Problem& problem)
      : problem_(problem), clock_(problem), bound_(lower_bound(problem)) {}

  Order best() {
    try_published();
    sort();
    if (!is_done()) {
      try_rules();
      sort();
      improve_best();
    }
    return std::move(candidates_.front().order);
  }

 private:
  // Makespans that differ by rounding count as equal. They are compared in
  // whole units, which is a strict order.
  void sort() {
    const double unit = std::max(1e-9 * bound_.makespan, 1e-300);
    const auto key = [&](const Candidate& c) {
      return std::pair(std::round(c.cost.makespan / unit), c.cost.longest_span);
    };
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [&](const Candidate& a, const Candidate& b) {
                       return key(a) < key(b);
                     });
  }
  bool is_done() const {
    return !candidates_.empty() && !is_better(bound_, candidates_.front().cost);
  }

  Cost offer(Order order) {
    if (!fits(problem_, order)) return {};
    const Cost cost = clock_.run(order);
    if (!std::isfinite(cost.makespan)) return cost;
    for (const Candidate& other : candidates_)
      if (other.order == order) return cost;
    candidates_.push_back({std::move(order), cost});
    return cost;
  }

  void try_published() {
    ScheduleRequest request;
    request.workers = problem_.workers;
    request.microbatches = problem_.microbatches;
    const std::vector<ScheduleGenerator> flat = {one_f_one_b(), zb_h1(),
                                                 zb_h2()};
    const std::vector<ScheduleGenerator> vs = {zb_v(), v_half(), v_min()};
    for (const ScheduleGenerator& g : problem_.is_v() ? vs : flat)
      if (auto schedule = g.generate(request))
        offer(order_of(problem_, schedule->sections().body));
  }

  // Varies one rule at a time and keeps the best value of each.
  void try_rules() {
    Policy best;
    best.ahead = ahead_by_depth(1);
    Cost best_cost;
    const auto attempt = [&](Policy policy) {
      const Cost cost = offer(greedy_order(problem_, policy));
      if (!is_better(cost, best_cost)) return;
      best_cost = cost;
      best = std::move(policy);
    };
    const auto vary = [&](auto change) {
      Policy policy = best;
      change(policy);
      attempt(std::move(policy));
    };
    for (double depth : {1.0, 1.5, 2.0, 3.0, 1e9})
      vary([&](Policy& p) { p.ahead = ahead_by_depth(depth); });
    for (double share : {1.0, 1.5, 2.0})
      vary([&](Policy& p) { p.ahead = ahead_by_time(share); });
    for (double overlap : {0.0, 0.25, 0.75, 1.0})
      vary([&](Policy& p) { p.weight_overlap = overlap; });
    for (double wait : {0.5, 1.0})
      vary([&](Policy& p) { p.forward_wait = wait; });
    vary([&](Policy& p) { p.first = Policy::First::Forward; });
    vary([&](Policy& p) { p.first = Policy::First::Other; });
    vary([&](Policy& p) { p.free_memory_first = true; });
  }

  // `depth` times as many as 1F1B.
  std::vector<int> ahead_by_depth(double depth) const {
    std::vector<int> ahead;
    for (int w = 0; w < problem_.workers; ++w) {
      const int stages_after =
          problem_.is_v() ? 2 * problem_.workers - 1 : problem_.workers - 1 - w;
      ahead.push_back(bounded(1 + depth * stages_after));
    }
    return ahead;
  }

  // `share` times what the slowest worker does until a microbatch is back.
  std::vector<int> ahead_by_time(double share) const {
    std::vector<double> work(at(problem_.workers), 0);
    for (int s = 0; s < problem_.stages(); ++s)
      for (const auto& seconds : problem_.seconds)
        work[at(problem_.worker_of(s))] += seconds[at(s)];
    const double slowest = *std::max_element(work.begin(), work.end());
    std::vector<int> ahead(at(problem_.workers), 1);
    double back = 0;
    for (int s = problem_.stages() - 1; s >= 0; --s) {
      back += problem_.seconds[kForward][at(s)] +
              problem_.seconds[kInput][at(s)] + 2 * problem_.transfer;
      ahead[at(problem_.worker_of(s))] = bounded(std::ceil(
          slowest > 0 ? share * problem_.stages_per_worker * back / slowest
                      : 1));
    }
    return ahead;
  }
  int bounded(double ahead) const {
    const double all =
        double(problem_.stages_per_worker) * problem_.microbatches;
    return static_cast<int>(std::clamp(ahead, 1.0, all));
  }

  void improve_best() {
    const int tries = std::clamp(kTimedActions / problem_.num_actions(),
                                 kMinTries, kMaxTries);
    const std::size_t starts = std::min(kImproved, candidates_.size());
    for (std::size_t i = 0; i < starts && !is_done(); ++i) {
      Candidate improved = candidates_[i];
      improved.cost =
          improve(problem_, clock_, bound_, tries / static_cast<int>(kImproved),
                  improved.order);
      if (is_better(improved.cost, candidates_.front().cost))
        std::swap(candidates_.front(), improved);
    }
  }

  const Problem& problem_;
  Clock clock_;
  const Cost bound_;
  std::vector<Candidate> candidates_;
};

Result<Schedule> generate(const ScheduleRequest& request) {
  PIPEWRIGHT_TRY(const Problem problem, problem_of(request));
  return Schedule::create(problem.stages(), problem.microbatches,
                          orders_of(problem, Search(problem).best()));
}

}  // namespace
}  // namespace zb

ScheduleGenerator zero_bubble() {
  return {"zero-bubble",
          "searches for unequal stages, transfers and limited memory",
          "Zero Bubble Pipeline Parallelism, ICLR 2024", zb::generate};
}

}  // namespace pipewright
