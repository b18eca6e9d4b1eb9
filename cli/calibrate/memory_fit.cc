#include "cli/calibrate/memory_fit.h"

#include <algorithm>

namespace pipewright::cli {
namespace {

struct Memory {
  double predicted = 0, measured = 0;  // bytes
};

std::vector<Memory> measured_memory(const std::vector<MeasuredRun>& runs,
                                    const std::vector<Prediction>& predictions,
                                    const Places& places) {
  std::vector<Memory> found;
  for (std::size_t run : places)
    if (runs[run].memory && runs[run].memory->value() > 0)
      found.push_back({static_cast<double>(predictions[run].memory.value()),
                       static_cast<double>(runs[run].memory->value())});
  return found;
}

// Least squares of relative errors: measured = base + (1 + fragmentation) *
// predicted.
MemoryFit least_squares(const std::vector<Memory>& rows) {
  double one = 0, held = 0, held_held = 0, rest = 0, held_rest = 0;
  for (const Memory& row : rows) {
    const double weight = 1 / row.measured;
    const double h = row.predicted * weight;
    const double r = 1 - h;  // beyond what is predicted
    one += weight * weight;
    held += weight * h;
    held_held += h * h;
    rest += weight * r;
    held_rest += h * r;
  }
  const MemoryFit base_only{std::max(0.0, rest / one), 0};
  const double determinant = one * held_held - held * held;
  if (rows.size() < 2 || determinant <= 1e-12 * one * held_held)
    return base_only;
  const MemoryFit both{(rest * held_held - held_rest * held) / determinant,
                       (one * held_rest - held * rest) / determinant};
  if (both.base < 0) return {0, std::max(0.0, held_rest / held_held)};
  return both.fragmentation < 0 ? base_only : both;
}

double error(const std::vector<Memory>& rows, const MemoryFit& fit) {
  double sum = 0;
  for (const Memory& row : rows) {
    const double off =
        (fit.base + (1 + fit.fragmentation) * row.predicted) / row.measured - 1;
    sum += off * off;
  }
  return sum;
}

double left_out_error(const std::vector<Memory>& rows) {
  Places all;
  for (std::size_t row = 0; row < rows.size(); ++row) all.push_back(row);
  const auto at = [&](const Places& places) {
    std::vector<Memory> some;
    for (std::size_t place : places) some.push_back(rows[place]);
    return some;
  };
  double sum = 0;
  for (std::size_t group = 0; group < num_groups(all); ++group) {
    const Split parts = split(all, group);
    sum += error(at(parts.group), least_squares(at(parts.others)));
  }
  return sum;
}

}  // namespace

std::optional<MemoryFit> memory_fit(const std::vector<MeasuredRun>& runs,
                                    const std::vector<Prediction>& predictions,
                                    const Places& places) {
  const std::vector<Memory> rows = measured_memory(runs, predictions, places);
  if (rows.empty()) return std::nullopt;
  if (rows.size() > 1 &&
      !is_clearly_lower(left_out_error(rows), error(rows, {})))
    return std::nullopt;
  return least_squares(rows);
}

}  // namespace pipewright::cli
