// The dynamic program runs from the last stage to the first, so that the number
// of stages after one is known, which decides how many microbatches are in
// flight. Plans of fewer stages use the last workers.
//
//   value[j][x, y, light] = min over (x2, y2, light2, recompute) of
//     max(value[j-1][x2, y2, light2], load of the stage, link at (x, y))
//
// A boundary is light if and only if the owner of its region recomputes: the
// stage before it where x < y, the stage after it where x > y.

#include "pipewright/planners/bi_partition/bi_partition_search.h"

#include <algorithm>

#include "pipewright/base/index.h"
#include "pipewright/base/infinity.h"

namespace pipewright {

BiPartitionSearch::BiPartitionSearch(const BiPartitionCosts& costs,
                                     double limit, double bound, bool drains)
    : costs_(costs), bound_(bound) {
  set_least();
  const double rounds = costs.microbatches();
  std::vector<double> limits = {limit};
  for (int j = 1; j <= costs.num_workers(); ++j)
    limits.push_back(drains ? limit * rounds / (rounds + j - 1) : limit);
  fill(tables_, costs.num_workers(), Goal::Bottleneck, limits);
}

std::size_t BiPartitionSearch::index(const State& state) const {
  const int width = 2 * costs_.band() + 1;
  const int d = state.cut.y - state.cut.x + costs_.band();
  return at((state.cut.x * width + d) * 2 + (state.light ? 1 : 0));
}

BiPartitionSearch::Table BiPartitionSearch::empty_table() const {
  const int units = costs_.num_units();
  const std::size_t size = index({{units, units + costs_.band()}, true}) + 1;
  return {std::vector<double>(size, kInfinity), std::vector<Choice>(size),
          std::vector<double>(at(units + 1), kInfinity)};
}

// Every unit takes at least its time on the worker that is fastest for it.
bool BiPartitionSearch::is_within(CutPair cut, int workers_after,
                                  double limit) const {
  const double before = least_forward_[at(cut.x)] + least_backward_[at(cut.y)];
  const double after = least_forward_.back() + least_backward_.back() - before;
  const double max_load = limit * (1 + 1e-9);  // allows for rounding
  if (after > max_load * workers_after) return false;
  const int workers_before = costs_.num_workers() - workers_after;
  return cut.x == 0 ||
         (workers_before > 0 && before <= max_load * workers_before);
}

void BiPartitionSearch::set_least() {
  least_forward_ = least_backward_ = {0.0};
  for (int unit = 0; unit < costs_.num_units(); ++unit) {
    double forward = kInfinity, backward = kInfinity;
    for (int k = 0; k < costs_.num_workers(); ++k) {
      forward = std::min(forward, costs_.forward(k, unit, unit + 1));
      backward = std::min(backward, costs_.backward(k, unit, unit + 1));
    }
    least_forward_.push_back(least_forward_.back() + forward);
    least_backward_.push_back(least_backward_.back() + backward);
  }
}

void BiPartitionSearch::fill(std::vector<Table>& tables, int stages, Goal goal,
                             const std::vector<double>& limits) const {
  const int units = costs_.num_units(), band = costs_.band();
  tables.assign(1, empty_table());
  tables[0].value[index({{units, units}, false})] = 0;
  tables[0].least.back() = 0;
  for (int j = 1; j <= stages; ++j) {
    tables.push_back(empty_table());
    Table& table = tables.back();
    const double limit = limits[at(j)];
    const auto& is_over = costs_.options().is_over;
    for (int x = 0; x < units && !(is_over && is_over()); ++x)
      for (int y = std::max(0, x - band); y <= std::min(units - 1, x + band);
           ++y) {
        if ((x == 0) != (y == 0)) continue;  // both only at the first stage
        if (!is_within({x, y}, j, limit)) continue;
        for (int light = 0; light < 2; ++light) {
          const State state{{x, y}, light != 0};
          if (state.light && x == y) continue;
          extend(tables[at(j - 1)], table, state, j - 1, goal, limit);
          double& least = table.least[at(x)];
          least = std::min(least, table.value[index(state)]);
        }
      }
  }
}

// The load grows with either end of the stage, so an end at which it reaches
// the limit ends its loop.
void BiPartitionSearch::extend(const Table& next, Table& table,
                               const State& state, int stages_after, Goal goal,
                               double limit) const {
  const auto [x, y] = state.cut;
  const int units = costs_.num_units(), band = costs_.band();
  const int k = costs_.num_workers() - 1 - stages_after;
  // What is no better than the value found so far is not needed either.
  const double& found = table.value[index(state)];
  const auto beyond = [&](double seconds) {
    return goal == Goal::ExtraBytes ? seconds > limit
                                    : seconds >= std::min(limit, found);
  };
  if (x > 0 && beyond(costs_.link(k, state.cut, state.light))) return;
  for (int x2 = stages_after == 0 ? units : std::max(x + 1, y); x2 <= units;
       ++x2) {
    const double forward = costs_.forward(k, x, x2);
    if (beyond(forward)) return;
    if (next.least[at(x2)] >= found) continue;
    const int first = std::max({y + 1, x, x2 - band});
    for (int y2 = stages_after == 0 ? units : first;
         y2 <= std::min(units, x2 + band); ++y2) {
      if ((x2 == units) != (stages_after == 0) ||
          (y2 == units) != (x2 == units))
        continue;
      if (beyond(forward + costs_.backward(k, y, y2))) break;
      for (int light = 0; light < 2; ++light)
        consider(next, table, state, {{x2, y2}, light != 0}, stages_after, goal,
                 limit);
      if (goal == Goal::Bottleneck && found <= bound_) return;
    }
  }
}

void BiPartitionSearch::consider(const Table& next, Table& table,
                                 const State& front, const State& back,
                                 int stages_after, Goal goal,
                                 double limit) const {
  const double rest = next.value[index(back)];
  if (rest >= table.value[index(front)]) return;
  const int k = costs_.num_workers() - 1 - stages_after;
  const auto [x, y] = front.cut;
  const bool owns_front = x > y, owns_back = back.cut.x < back.cut.y;
  double load =
      costs_.forward(k, x, back.cut.x) + costs_.backward(k, y, back.cut.y);
  double link = x > 0 ? costs_.link(k, front.cut, front.light) : 0;
  if (costs_.is_blocking(k)) {
    if (x > 0) load += costs_.exchange(k, front.cut, front.light);
    if (stages_after > 0) load += costs_.exchange(k + 1, back.cut, back.light);
  }
  const std::size_t i = index(front);
  for (bool recompute : {false, true}) {
    if (owns_front && front.light != recompute) continue;
    if (owns_back && back.light != recompute) continue;
    const double again = recompute ? costs_.forward(k, y, back.cut.y) : 0;
    const double pace = std::max(load + again, link);
    double value = std::max({rest, pace, bound_});
    if (goal == Goal::Bottleneck ? value >= limit : pace > limit) continue;
    if (goal == Goal::ExtraBytes)
      value = rest + costs_.extra_bytes(front.cut, front.light);
    if (value >= table.value[i]) continue;
    if (!fits(front, back, stages_after, recompute)) continue;
    table.value[i] = value;
    table.choice[i] = {static_cast<std::int16_t>(back.cut.x),
                       static_cast<std::int16_t>(back.cut.y), back.light,
                       recompute};
  }
}

bool BiPartitionSearch::fits(const State& front, const State& back,
                             int stages_after, bool recompute) const {
  const int k = costs_.num_workers() - 1 - stages_after;
  return costs_.memory(front.cut, back.cut, stages_after, recompute) <=
         costs_.memory_limit(k);
}

std::optional<double> BiPartitionSearch::bottleneck(int stages) const {
  const double value = tables_[at(stages)].value[index({{0, 0}, false})];
  if (value == kInfinity) return std::nullopt;
  return value;
}

std::optional<BiPartition> BiPartitionSearch::best(int stages) const {
  const std::optional<double> seconds = bottleneck(stages);
  if (!seconds) return std::nullopt;
  // Allows for rounding: the bottleneck is a sum of differences.
  const std::vector<double> limits(at(stages + 1), *seconds * (1 + 1e-12));
  std::vector<Table> tables;
  fill(tables, stages, Goal::ExtraBytes, limits);
  BiPartition plan = traced(tables, stages);
  plan.bottleneck = *seconds;
  return plan;
}

BiPartition BiPartitionSearch::traced(const std::vector<Table>& tables,
                                      int stages) const {
  BiPartition plan;
  State state{{0, 0}, false};
  plan.cuts.push_back(state.cut);
  for (int j = stages; j > 0; --j) {
    const Choice& choice = tables[at(j)].choice[index(state)];
    plan.extra_bytes += costs_.extra_bytes(state.cut, state.light);
    plan.recompute.push_back(choice.recompute);
    state = {{choice.x, choice.y}, choice.light};
    plan.cuts.push_back(state.cut);
  }
  return plan;
}

}  // namespace pipewright
