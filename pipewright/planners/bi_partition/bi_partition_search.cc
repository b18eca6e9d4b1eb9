// The dynamic program runs from the last stage to the first, so that the number
// of stages after one is known, which decides how many microbatches are in
// flight. Plans on fewer devices use the last ones.
//
//   value[j][d][x, y, light] = min over (r, x2, y2, light2, recompute) of
//     max(value[j-1][d-r][x2, y2, light2], load of the stage on r devices,
//         its links at (x, y) and (x2, y2))
//
// A boundary takes as long as the slower of its two sides, and each side knows
// its own replicas, so the state needs no replica count.
//
// A boundary is light if and only if the owner of its region recomputes: the
// stage before it where x < y, the stage after it where x > y. A region that
// passes a whole stage is never light.

#include "pipewright/planners/bi_partition/bi_partition_search.h"

#include <algorithm>

#include "pipewright/base/index.h"
#include "pipewright/base/infinity.h"

namespace pipewright {

using Group = BiPartitionCosts::Group;
using Side = BiPartitionCosts::Side;

BiPartitionSearch::BiPartitionSearch(const BiPartitionCosts& costs,
                                     double limit, double bound, bool drains)
    : costs_(costs), bound_(bound) {
  set_least();
  const double rounds = costs.microbatches();
  std::vector<double> limits = {limit};
  for (int j = 1; j <= costs.num_devices(); ++j)
    limits.push_back(drains ? limit * rounds / (rounds + j - 1) : limit);
  tables_ = filled(costs.num_devices(), costs.num_devices(), Goal::Bottleneck,
                   limits);
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

// Every unit takes at least its time on the device that is fastest for it.
bool BiPartitionSearch::is_within(CutPair cut, int devices_after,
                                  double limit) const {
  const double before = least_forward_[at(cut.x)] + least_backward_[at(cut.y)];
  const double after = least_forward_.back() + least_backward_.back() - before;
  const double max_load = limit * (1 + 1e-9);  // allows for rounding
  if (after > max_load * devices_after) return false;
  const int devices_before = costs_.num_devices() - devices_after;
  return cut == CutPair{0, 0} ||
         (devices_before > 0 && before <= max_load * devices_before);
}

void BiPartitionSearch::set_least() {
  least_forward_ = least_backward_ = {0.0};
  for (int unit = 0; unit < costs_.num_units(); ++unit) {
    double forward = kInfinity, backward = kInfinity;
    for (int d = 0; d < costs_.num_devices(); ++d) {
      forward = std::min(forward, costs_.forward({d, 1}, unit, unit + 1));
      backward = std::min(backward, costs_.backward({d, 1}, unit, unit + 1));
    }
    least_forward_.push_back(least_forward_.back() + forward);
    least_backward_.push_back(least_backward_.back() + backward);
  }
}

BiPartitionSearch::Tables BiPartitionSearch::filled(
    int stages, int devices, Goal goal,
    const std::vector<double>& limits) const {
  const int units = costs_.num_units();
  Tables tables(at(stages + 1), std::vector<Table>(at(devices + 1)));
  tables[0][0] = empty_table();
  tables[0][0].value[index({{units, units}, false})] = 0;
  tables[0][0].least.back() = 0;
  for (int j = 1; j <= stages; ++j)
    for (int d = j; d <= std::min(devices, j * costs_.max_replicas()); ++d)
      tables[at(j)][at(d)] = filled_table(tables, j, d, goal, limits[at(j)]);
  return tables;
}

BiPartitionSearch::Table BiPartitionSearch::filled_table(const Tables& tables,
                                                         int stages,
                                                         int devices, Goal goal,
                                                         double limit) const {
  const int units = costs_.num_units(), band = costs_.band();
  const auto& is_over = costs_.options().is_over;
  const auto& shorter = tables[at(stages - 1)];
  Table table = empty_table();
  bool has_plan = false;
  for (int x = 0; x <= units && !(is_over && is_over()); ++x)
    for (int y = std::max(0, x - band); y <= std::min(units, x + band); ++y) {
      if (x + y == 2 * units || !is_within({x, y}, devices, limit)) continue;
      for (bool light : {false, true}) {
        if (light && x == y) continue;
        const State state{{x, y}, light};
        for (int r = 1; r <= std::min(costs_.max_replicas(), devices); ++r) {
          const Table& next = shorter[at(devices - r)];
          if (next.value.empty()) continue;
          const Group group{costs_.num_devices() - devices, r};
          extend(next, table, state, {group, stages - 1}, goal, limit);
        }
        const double value = table.value[index(state)];
        has_plan |= value < kInfinity;
        table.least[at(x)] = std::min(table.least[at(x)], value);
      }
    }
  return has_plan ? table : Table();
}

// The load grows with either end of the stage, so an end at which it reaches
// the limit ends its loop.
void BiPartitionSearch::extend(const Table& next, Table& table,
                               const State& state, Place place, Goal goal,
                               double limit) const {
  const auto [x, y] = state.cut;
  const int units = costs_.num_units(), band = costs_.band();
  const bool is_last = place.stages_after == 0;
  // What is no better than the value found so far is not needed either.
  const double& found = table.value[index(state)];
  const auto beyond = [&](double seconds) {
    return goal == Goal::ExtraBytes ? seconds > limit
                                    : seconds >= std::min(limit, found);
  };
  if (x + y > 0 &&
      beyond(costs_.link(place.group, Side::Before, state.cut, state.light)))
    return;
  for (int x2 = is_last ? units : x; x2 <= units; ++x2) {
    const double forward = costs_.forward(place.group, x, x2);
    if (beyond(forward)) return;
    if (next.least[at(x2)] >= found) continue;
    const int first = std::max({y, x2 - band, x2 == x ? y + 1 : y});
    for (int y2 = is_last ? units : first; y2 <= std::min(units, x2 + band);
         ++y2) {
      if ((x2 + y2 == 2 * units) != is_last) continue;
      if (beyond(forward + costs_.backward(place.group, y, y2))) break;
      for (bool light : {false, true})
        consider(next, table, state, {{x2, y2}, light}, place, goal, limit);
      if (goal == Goal::Bottleneck && found <= bound_) return;
    }
  }
}

BiPartitionSearch::Pace BiPartitionSearch::pace_of(const State& front,
                                                   const State& back,
                                                   Place place) const {
  const Group group = place.group;
  Pace pace;
  pace.load = costs_.forward(group, front.cut.x, back.cut.x) +
              costs_.backward(group, front.cut.y, back.cut.y) +
              costs_.reduction(group, front.cut.y, back.cut.y);
  const auto add = [&](Side side, const State& state) {
    pace.link =
        std::max(pace.link, costs_.link(group, side, state.cut, state.light));
    if (costs_.is_blocking(group))
      pace.load += costs_.exchange(group, side, state.cut, state.light);
  };
  if (front.cut != CutPair{0, 0}) add(Side::Before, front);
  if (place.stages_after > 0) add(Side::After, back);
  return pace;
}

void BiPartitionSearch::consider(const Table& next, Table& table,
                                 const State& front, const State& back,
                                 Place place, Goal goal, double limit) const {
  const double rest = next.value[index(back)];
  const std::size_t i = index(front);
  if (rest >= table.value[i]) return;
  const auto [x, y] = front.cut;
  const auto [x2, y2] = back.cut;
  const bool owns_front = x > y, owns_back = x2 < y2;
  // Only a part of a region is owned here.
  const bool passes = (owns_front && y2 < x) || (owns_back && y > x2);
  if (passes && (front.light || back.light)) return;
  const Pace pace = pace_of(front, back, place);
  for (bool recompute : {false, true}) {
    if (recompute && (passes || y == y2 || !costs_.may_recompute())) continue;
    if (owns_front && front.light != recompute) continue;
    if (owns_back && back.light != recompute) continue;
    const double again = recompute ? costs_.forward(place.group, y, y2) : 0;
    const double seconds = std::max(pace.load + again, pace.link);
    double value = std::max({rest, seconds, bound_});
    if (goal == Goal::Bottleneck ? value >= limit : seconds > limit) continue;
    if (goal == Goal::ExtraBytes)
      value = rest + costs_.extra_bytes(front.cut, front.light);
    if (value >= table.value[i]) continue;
    if (costs_.memory(front.cut, back.cut, place.group.replicas,
                      place.stages_after,
                      recompute) > costs_.memory_limit(place.group))
      continue;
    table.value[i] = value;
    table.choice[i] = {static_cast<std::int16_t>(x2),
                       static_cast<std::int16_t>(y2), back.light, recompute,
                       static_cast<std::int16_t>(place.group.replicas)};
  }
}

std::optional<double> BiPartitionSearch::bottleneck(int stages,
                                                    int devices) const {
  const Table& table = tables_[at(stages)][at(devices)];
  if (table.value.empty()) return std::nullopt;
  const double value = table.value[index({{0, 0}, false})];
  if (value == kInfinity) return std::nullopt;
  return value;
}

std::optional<BiPartition> BiPartitionSearch::best(int stages,
                                                   int devices) const {
  const std::optional<double> seconds = bottleneck(stages, devices);
  if (!seconds) return std::nullopt;
  // Allows for rounding: the bottleneck is a sum of differences.
  const std::vector<double> limits(at(stages + 1), *seconds * (1 + 1e-12));
  const Tables tables = filled(stages, devices, Goal::ExtraBytes, limits);
  const Table& table = tables[at(stages)][at(devices)];
  if (table.value.empty() || table.value[index({{0, 0}, false})] == kInfinity)
    return std::nullopt;  // the time is over
  BiPartition plan = traced(tables, stages, devices);
  plan.bottleneck = *seconds;
  return plan;
}

BiPartition BiPartitionSearch::traced(const Tables& tables, int stages,
                                      int devices) const {
  BiPartition plan;
  State state{{0, 0}, false};
  plan.cuts.push_back(state.cut);
  for (int j = stages; j > 0; --j) {
    const Choice& choice = tables[at(j)][at(devices)].choice[index(state)];
    plan.extra_bytes += costs_.extra_bytes(state.cut, state.light);
    plan.replicas.push_back(choice.replicas);
    plan.recompute.push_back(choice.recompute);
    state = {{choice.x, choice.y}, choice.light};
    devices -= choice.replicas;
    plan.cuts.push_back(state.cut);
  }
  return plan;
}

}  // namespace pipewright
