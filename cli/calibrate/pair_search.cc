#include "cli/calibrate/pair_search.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace pipewright::cli {
namespace {

constexpr int kIntervals = 6;  // of the grid, on each side
constexpr double kLeastStep = 1.0 / kIntervals / 512;

std::vector<Point> grid() {
  std::vector<Point> points;
  for (int i = 0; i <= kIntervals; ++i)
    for (int j = 0; j <= kIntervals; ++j)
      points.push_back({double(i) / kIntervals, double(j) / kIntervals});
  return points;
}

std::vector<Point> neighbours(const Point& point, double step) {
  std::vector<Point> points;
  for (int i : {-1, 0, 1})
    for (int j : {-1, 0, 1})
      if (i != 0 || j != 0)
        points.push_back({std::clamp(point[0] + i * step, 0.0, 1.0),
                          std::clamp(point[1] + j * step, 0.0, 1.0)});
  return points;
}

struct Best {
  Point point = {0, 0};
  double value = INFINITY;
};

Result<Best> best_of(
    Best best, const std::vector<Point>& points,
    const std::function<Result<double>(const Point&)>& function) {
  for (const Point& point : points) {
    PIPEWRIGHT_TRY(const double value, function(point));
    if (value < best.value) best = {point, value};
  }
  return best;
}

}  // namespace

Result<Point> least_point(
    const std::function<Result<double>(const Point&)>& function) {
  PIPEWRIGHT_TRY(Best best, best_of({}, grid(), function));
  for (double step = 1.0 / kIntervals; step > kLeastStep;) {
    const Point from = best.point;
    PIPEWRIGHT_TRY(best, best_of(best, neighbours(from, step), function));
    if (best.point == from) step /= 2;
  }
  return best.point;
}

}  // namespace pipewright::cli
