#include "pipewright/schedules/zero_bubble_problem.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace pipewright::zb {
namespace {

Result<void> read_times(const ScheduleRequest& request, Problem& problem) {
  for (auto& seconds : problem.seconds) seconds.assign(at(problem.stages()), 1);
  for (std::size_t s = 0; s < request.times.size(); ++s) {
    const auto& times = request.times[s];
    const double seconds[3] = {times.forward.value(),
                               times.backward_input.value(),
                               times.backward_weight.value()};
    for (int kind = 0; kind < 3; ++kind) {
      if (!std::isfinite(seconds[kind]) || seconds[kind] < 0)
        return bad_configuration("stage " + std::to_string(s) +
                                     " has a time of " +
                                     std::to_string(seconds[kind]) + " s",
                                 "times are finite and not negative");
      problem.seconds[kind][s] = seconds[kind];
    }
  }
  problem.transfer = request.transfer.value();
  if (!std::isfinite(problem.transfer) || problem.transfer < 0)
    return bad_configuration(
        "a transfer of " + std::to_string(problem.transfer) + " s",
        "times are finite and not negative");
  double all = 2.0 * problem.transfer * problem.stages();
  for (const auto& seconds : problem.seconds)
    for (const double s : seconds) all += s;
  if (!std::isfinite(all * problem.microbatches))
    return bad_configuration("the sum of the times is not finite",
                             "give smaller times");
  return {};
}

Result<void> read_limits(const ScheduleRequest& request, Problem& problem) {
  const int all = problem.stages_per_worker * problem.microbatches;
  problem.limit.assign(at(problem.workers), all);
  if (request.memory_limit.empty()) return {};
  if (request.memory_limit.size() != at(problem.workers))
    return bad_configuration(std::to_string(request.memory_limit.size()) +
                                 " memory limits for " +
                                 std::to_string(problem.workers) + " workers",
                             "give one per worker or none");
  for (int w = 0; w < problem.workers; ++w) {
    const double limit = request.memory_limit[at(w)];
    if (!(limit >= problem.stages_per_worker))
      return bad_configuration(
          "worker " + std::to_string(w) + " may hold " + std::to_string(limit) +
              " activations, but one microbatch needs " +
              std::to_string(problem.stages_per_worker),
          "allow more memory, or cut the model into more stages");
    problem.limit[at(w)] =
        static_cast<int>(std::min(std::floor(limit), double(all)));
  }
  return {};
}

}  // namespace

int Problem::input_of(int action) const {
  const int stage = stage_of(action);
  if (kind_of(action) == kForward && stage > 0)
    return this->action(stage - 1, microbatch_of(action), kForward);
  if (kind_of(action) == kInput && stage + 1 < stages())
    return this->action(stage + 1, microbatch_of(action), kInput);
  return -1;
}

Result<Problem> problem_of(const ScheduleRequest& request) {
  Problem problem;
  problem.workers = request.workers;
  problem.microbatches = request.microbatches;
  const std::size_t times = request.times.size();
  problem.stages_per_worker = times == 2 * at(request.workers) ? 2 : 1;
  if (times != 0 && times != at(problem.stages()))
    return bad_configuration("times for " + std::to_string(times) +
                                 " stages on " +
                                 std::to_string(request.workers) + " workers",
                             "give one per worker, or two per worker for a V");
  if (auto read = read_times(request, problem); !read) return read.error();
  if (auto read = read_limits(request, problem); !read) return read.error();
  return problem;
}

Order order_of(const Problem& problem, const Orders& orders) {
  Order order(orders.size());
  for (std::size_t w = 0; w < orders.size(); ++w)
    for (const ComputeAction& a : orders[w]) {
      const auto add = [&](Kind kind) {
        order[w].push_back(
            problem.action(a.stage.value, a.microbatch.value, kind));
      };
      if (a.kind == ComputeKind::Forward) add(kForward);
      if (starts_backward(a.kind)) add(kInput);
      if (a.kind == ComputeKind::BackwardWeight ||
          a.kind == ComputeKind::Backward)
        add(kWeight);
    }
  return order;
}

Orders orders_of(const Problem& problem, const Order& order) {
  constexpr ComputeKind kKinds[] = {ComputeKind::Forward,
                                    ComputeKind::BackwardInput,
                                    ComputeKind::BackwardWeight};
  Orders orders(order.size());
  for (std::size_t w = 0; w < order.size(); ++w)
    for (int a : order[w])
      orders[w].push_back({.stage = StageId(problem.stage_of(a)),
                           .microbatch = MicrobatchId(problem.microbatch_of(a)),
                           .kind = kKinds[Problem::kind_of(a)]});
  return orders;
}

bool fits(const Problem& problem, const Order& order) {
  for (std::size_t w = 0; w < order.size(); ++w) {
    int held = 0;
    for (int a : order[w]) {
      if (Problem::kind_of(a) == kForward && ++held > problem.limit[w])
        return false;
      if (Problem::kind_of(a) == kWeight) --held;
    }
  }
  return true;
}

bool is_better(const Cost& a, const Cost& b) {
  if (!std::isfinite(b.makespan)) return std::isfinite(a.makespan);
  const double slack = 1e-9 * b.makespan;
  if (a.makespan < b.makespan - slack) return true;
  return a.makespan <= b.makespan + slack &&
         a.longest_span < b.longest_span - slack;
}

Cost lower_bound(const Problem& problem) {
  const int stages = problem.stages();
  const double m = problem.microbatches;
  const auto& forward = problem.seconds[kForward];
  const auto& input = problem.seconds[kInput];
  const auto& weight = problem.seconds[kWeight];
  const auto transfer_to = [&](int s) {
    return problem.worker_of(s) != problem.worker_of(s - 1) ? problem.transfer
                                                            : 0;
  };
  // The time until a stage's first F, and from its last I to the end of the
  // first stage.
  std::vector<double> head(at(stages), 0), tail(at(stages), 0);
  for (int s = 1; s < stages; ++s) {
    head[at(s)] = head[at(s - 1)] + forward[at(s - 1)] + transfer_to(s);
    tail[at(s)] = transfer_to(s) + input[at(s - 1)] +
                  std::max(tail[at(s - 1)], weight[at(s - 1)]);
  }
  struct Share {  // of one worker
    double start = 0, first_input = -1, work = 0, backwards = 0;
  };
  std::vector<Share> shares(at(problem.workers));
  Cost bound{0, 0};
  double arrival = head.back() + forward.back();  // of the first gradient at s
  for (int s = stages - 1; s >= 0; --s) {
    Share& share = shares[at(problem.worker_of(s))];
    share.start = head[at(s)];
    if (share.first_input < 0) share.first_input = arrival;
    share.backwards += m * (input[at(s)] + weight[at(s)]);
    share.work += m * (forward[at(s)] + input[at(s)] + weight[at(s)]);
    const double passes = m * (forward[at(s)] + input[at(s)]);
    bound.makespan =
        std::max(bound.makespan, head[at(s)] + passes + tail[at(s)]);
    if (s > 0) arrival += input[at(s)] + transfer_to(s);
  }
  for (const Share& share : shares) {
    bound.makespan = std::max({bound.makespan, share.start + share.work,
                               share.first_input + share.backwards});
    bound.longest_span = std::max(bound.longest_span, share.work);
  }
  return bound;
}

}  // namespace pipewright::zb
