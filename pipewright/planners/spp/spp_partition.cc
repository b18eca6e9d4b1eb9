#include "pipewright/planners/spp/spp_partition.h"

#include <algorithm>

#include "pipewright/base/check.h"

namespace pipewright {
namespace {

bool is_possible(const std::vector<double>& row) {
  return std::any_of(row.begin(), row.end(),
                     [](double load) { return load < kNoPartition; });
}

}  // namespace

void PartitionProblem::resize(int layers, int devices) {
  num_layers = layers;
  num_devices = devices;
  crossing.assign(at(layers) + 1, 0.0);
  ranges.assign(at(devices + 1) * at(devices + 1), Range());
  channels.assign(ranges.size() * at(devices + 1), Channel());
}

Partition::Partition(const PartitionProblem& problem) : problem_(problem) {
  PIPEWRIGHT_CHECK(problem.num_layers < 65536 && problem.num_devices < 65536,
                   "too many layers or devices for a table");
  Loads next_loads, loads;
  for (int k = 1; k <= std::min(problem.num_layers, problem.num_devices); ++k) {
    loads.clear();
    if (k == 1)
      last_stage(loads);
    else
      stage_before(next_loads, loads);
    next_loads.swap(loads);
  }
}

Partition::Table& Partition::add_table() {
  Table& table = tables_.emplace_back();
  table.row.assign(problem_.ranges.size(), -1);
  return table;
}

void Partition::add_row(Table& table, Loads& loads, int first, int end,
                        const std::vector<double>& row) const {
  table.row[problem_.range_index(first, end)] =
      static_cast<std::int32_t>(table.whole.size());
  table.whole.push_back(row[0]);
  loads.insert(loads.end(), row.begin(), row.end());
}

void Partition::last_stage(Loads& loads) {
  Table& table = add_table();
  const int n = problem_.num_layers, end = problem_.num_devices;
  for (int first = 0; first < end; ++first) {
    const auto& range = problem_.ranges[problem_.range_index(first, end)];
    if (range.load.empty()) continue;
    std::vector<int> farthest(at(n), n);
    if (problem_.farthest) farthest = problem_.farthest(1, first, end);
    std::vector<double> row(at(n) + 1, kNoPartition);
    for (int l = 0; l < n; ++l)
      if (farthest[at(l)] >= n)
        row[at(l)] = range.load[at(n)] - range.load[at(l)] + range.fixed;
    if (is_possible(row)) add_row(table, loads, first, end, row);
  }
}

// For every cut, the best range of the next stage and its load.
bool Partition::best_next(const Table& next, const Loads& next_loads, int first,
                          int end, std::vector<double>& best,
                          std::uint16_t* next_end) const {
  const int n = problem_.num_layers;
  bool any = false;
  std::fill(best.begin(), best.end(), kNoPartition);
  for (int c = end + 1; c <= problem_.num_devices; ++c) {
    const std::int32_t row = next.row[problem_.range_index(end, c)];
    const auto& channel =
        problem_.channels[problem_.channel_index(first, end, c)];
    if (row < 0 || !(channel.per_byte < kNoPartition)) continue;
    any = true;
    const double* load = &next_loads[at(row) * at(n + 1)];
    for (int m = 1; m < n; ++m) {
      const double through =
          problem_.crossing[at(m)] * channel.per_byte + channel.fixed;
      const double larger = std::max(load[m], through);
      if (larger < best[at(m)]) {
        best[at(m)] = larger;
        next_end[m] = static_cast<std::uint16_t>(c);
      }
    }
  }
  return any;
}

// Of each layer that a stage on the range can start at: the best cut, the first
// of equal ones, and its load. A longer stage takes longer, and mostly what
// follows it then takes less. So of neighbouring cuts after which it takes less
// and less, two can be the best: the last at which what follows takes longer
// than the stage, and the next one. For a later layer both are later.
void Partition::best_cuts(const PartitionProblem::Range& range,
                          const std::vector<int>& farthest,
                          const std::vector<double>& best,
                          std::vector<double>& row,
                          std::vector<std::uint16_t>& cut) const {
  const int n = problem_.num_layers;
  // Where what follows takes more again, and since when it takes as much.
  std::vector<int> falls_until(at(n)), equal_since(at(n));
  for (int m = 1; m < n; ++m)
    equal_since[at(m)] =
        m > 1 && best[at(m)] == best[at(m - 1)] ? equal_since[at(m - 1)] : m;
  for (int m = n - 1; m > 0; --m)
    falls_until[at(m)] = m + 1 < n && best[at(m + 1)] <= best[at(m)]
                             ? falls_until[at(m + 1)]
                             : m + 1;
  std::fill(row.begin(), row.end(), kNoPartition);
  int longer_until = 0;  // before it, what follows takes longer
  for (int l = 0; l < n; ++l) {
    const auto take = [&](int m, double load) {
      if (!(load < row[at(l)])) return;
      row[at(l)] = load;
      cut[at(l)] = static_cast<std::uint16_t>(m);
    };
    const int last_end =
        farthest.empty() ? n : std::min(n, farthest[at(l)] + 1);
    const double before = range.load[at(l)] - range.fixed;
    for (int m = l + 1, next = 0; m < last_end; m = next) {
      const int end = std::min(last_end, falls_until[at(m)]);
      next = std::clamp(longer_until, m, end);
      while (next < end && range.load[at(next)] - before < best[at(next)])
        ++next;
      longer_until = std::max(longer_until, next);
      if (next > m)
        take(std::max(m, equal_since[at(next - 1)]), best[at(next - 1)]);
      if (next == end) continue;
      take(next, range.load[at(next)] - before);
      break;
    }
  }
}

void Partition::stage_before(const Loads& next_loads, Loads& loads) {
  Table& table = add_table();
  const Table& next = tables_[tables_.size() - 2];
  const int n = problem_.num_layers, k = static_cast<int>(tables_.size());
  std::vector<double> best(at(n) + 1), row(at(n) + 1);
  std::vector<std::uint16_t> cut(at(n)), next_end(at(n));
  for (int first = 0; first < problem_.num_devices; ++first)
    for (int end = first + 1; end < problem_.num_devices; ++end) {
      const auto& range = problem_.ranges[problem_.range_index(first, end)];
      if (range.load.empty() ||
          !best_next(next, next_loads, first, end, best, next_end.data()))
        continue;
      std::vector<int> farthest;
      if (problem_.farthest) farthest = problem_.farthest(k, first, end);
      best_cuts(range, farthest, best, row, cut);
      if (!is_possible(row)) continue;
      add_row(table, loads, first, end, row);
      table.cut.insert(table.cut.end(), cut.begin(), cut.end());
      table.next_end.insert(table.next_end.end(), next_end.begin(),
                            next_end.end());
    }
}

double Partition::load(int stages, int first, int end) const {
  if (stages < 1 || stages > max_stages()) return kNoPartition;
  const Table& table = tables_[at(stages - 1)];
  const std::int32_t row = table.row[problem_.range_index(first, end)];
  return row < 0 ? kNoPartition : table.whole[at(row)];
}

std::vector<PartitionStage> Partition::stages(int stages, int first,
                                              int end) const {
  PIPEWRIGHT_CHECK(load(stages, first, end) < kNoPartition,
                   "no partition with these numbers exists");
  std::vector<PartitionStage> list;
  int layer = 0;
  for (int k = stages; k > 1; --k) {
    const Table& table = tables_[at(k - 1)];
    const std::size_t row = at(table.row[problem_.range_index(first, end)]) *
                            at(problem_.num_layers);
    const int cut = table.cut[row + at(layer)];
    const int next_end = table.next_end[row + at(cut)];
    list.push_back({first, end, layer, cut});
    layer = cut;
    first = end;
    end = next_end;
  }
  list.push_back({first, end, layer, problem_.num_layers});
  return list;
}

}  // namespace pipewright
