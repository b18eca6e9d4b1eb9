#include "pipewright/schedules/zero_bubble_clock.h"

#include <algorithm>

namespace pipewright::zb {

Clock::Clock(const Problem& problem)
    : output_(at(problem.num_actions()), -1),
      sleeper_(at(problem.num_actions()), -1) {
  times_.start.resize(at(problem.num_actions()));
  times_.end.resize(at(problem.num_actions()));
  for (int a = 0; a < problem.num_actions(); ++a) {
    duration_.push_back(problem.duration(a));
    const int input = problem.input_of(a);
    input_.push_back(input);
    if (input >= 0) output_[at(input)] = a;
    const bool crosses =
        input >= 0 && problem.worker_of(problem.stage_of(input)) !=
                          problem.worker_of(problem.stage_of(a));
    delay_.push_back(crosses ? problem.transfer : 0);
  }
}

Cost Clock::run(const Order& order) {
  auto& end = times_.end;
  std::fill(end.begin(), end.end(), -1.0);
  std::fill(sleeper_.begin(), sleeper_.end(), -1);
  times_.tail.clear();
  sequence_.clear();
  next_.assign(order.size(), 0);
  clock_.assign(order.size(), 0);
  for (std::size_t w = order.size(); w-- > 0;)
    awake_.push_back(static_cast<int>(w));
  while (!awake_.empty()) {
    const std::size_t w = at(awake_.back());
    awake_.pop_back();
    const auto& line = order[w];
    double now = clock_[w];
    std::size_t next = next_[w];
    for (; next < line.size(); ++next) {
      const int action = line[next], input = input_[at(action)];
      if (input >= 0) {
        if (end[at(input)] < 0) {
          sleeper_[at(input)] = static_cast<int>(w);
          break;
        }
        now = std::max(now, end[at(input)] + delay_[at(action)]);
      }
      times_.start[at(action)] = now;
      now += duration_[at(action)];
      end[at(action)] = now;
      sequence_.push_back(action);
      if (sleeper_[at(action)] >= 0) awake_.push_back(sleeper_[at(action)]);
    }
    clock_[w] = now;
    next_[w] = next;
  }
  return sequence_.size() == end.size() ? cost(order) : Cost{};
}

Cost Clock::cost(const Order& order) {
  Cost cost{0, 0};
  times_.last_action = -1;
  for (std::size_t w = 0; w < order.size(); ++w) {
    const double first = times_.start[at(order[w].front())];
    if (times_.last_action < 0 || clock_[w] > cost.makespan) {
      cost.makespan = clock_[w];
      times_.last_action = order[w].back();
    }
    cost.longest_span = std::max(cost.longest_span, clock_[w] - first);
  }
  return cost;
}

void Clock::run_back(const Order& order) {
  auto& tail = times_.tail;
  tail.assign(times_.end.size(), 0);
  std::vector<int>& next_of = sleeper_;  // the next action on the worker
  for (const auto& line : order) {
    for (std::size_t i = 0; i + 1 < line.size(); ++i)
      next_of[at(line[i])] = line[i + 1];
    next_of[at(line.back())] = -1;
  }
  for (std::size_t i = sequence_.size(); i-- > 0;) {
    const int action = sequence_[i];
    for (const int next : {next_of[at(action)], output_[at(action)]}) {
      if (next < 0) continue;
      const double delay = input_[at(next)] == action ? delay_[at(next)] : 0;
      tail[at(action)] = std::max(tail[at(action)],
                                  delay + duration_[at(next)] + tail[at(next)]);
    }
  }
}

}  // namespace pipewright::zb
