#include "pipewright/planners/bounds/slice_bound.h"

#include <algorithm>
#include <cmath>

#include "pipewright/base/index.h"
#include "pipewright/base/infinity.h"
#include "pipewright/planners/bounds/least_times.h"
#include "pipewright/profile/tiers.h"

namespace pipewright {
namespace {

constexpr int kWeights = 20;  // values of p that are tried
// Of profiled sizes; all below it are tried. Otherwise there is no bound.
constexpr int kMaxSmallest = 256;

// Of one operation on a slice of some size.
struct SliceTime {
  double size;
  double path;  // what later operations wait for
  double work;
};

// Between two neighbours times are linear. Slices between the points of a gap
// do not exist.
struct SliceTimes {
  std::vector<SliceTime> points;  // ascending in size
  std::size_t first_linear = 0;   // before this one there are gaps
};

// The smallest p path + c work / size at a size between two points: there it is
// p (a0 + a1 s) + c (w0 / s + w1).
double least_between(const SliceTime& low, const SliceTime& high, double p,
                     double c) {
  const double width = high.size - low.size;
  const double a1 = (high.path - low.path) / width;
  const double w1 = (high.work - low.work) / width;
  const double a0 = low.path - a1 * low.size, w0 = low.work - w1 * low.size;
  if (p * a1 <= 0 || c * w0 <= 0) return kInfinity;  // least at an end
  const double size = std::sqrt(c * w0 / (p * a1));
  if (size <= low.size || size >= high.size) return kInfinity;
  return p * (a0 + a1 * size) + c * (w0 / size + w1);
}

double least_cost(const SliceTimes& times, double p, double c) {
  double least = kInfinity;
  const auto& points = times.points;
  for (std::size_t i = 0; i < points.size(); ++i) {
    least = std::min(least,
                     p * points[i].path + c * points[i].work / points[i].size);
    if (i > times.first_linear)
      least = std::min(least, least_between(points[i - 1], points[i], p, c));
  }
  return least;
}

// Below the smallest profiled size times are not linear, so all sizes count.
std::vector<int> slice_sizes(const Problem& problem, const std::string& table,
                             std::size_t& first_linear) {
  const int largest = largest_microbatch(problem);
  std::vector<int> sizes = {largest};
  const auto known = problem.profile->times.find(table);
  if (known == problem.profile->times.end()) return {};
  for (const auto& [size, rows] : known->second)
    if (size < largest) sizes.push_back(size);
  const int smallest = *std::min_element(sizes.begin(), sizes.end());
  if (smallest > kMaxSmallest) return {};
  for (int size = 1; size < smallest; ++size) sizes.push_back(size);
  std::sort(sizes.begin(), sizes.end());
  first_linear = at(smallest - 1);
  return sizes;
}

// The operations of one kind of device: forward and backward of each layer.
struct KindSlices {
  std::vector<SliceTimes> forward, backward;
};

KindSlices slices_on(const Problem& problem, const std::string& table) {
  const std::size_t layers = problem.profile->layers.size();
  std::size_t first_linear = 0;
  const std::vector<int> sizes = slice_sizes(problem, table, first_linear);
  if (sizes.empty()) return {};
  KindSlices slices{{layers, {{}, first_linear}}, {layers, {{}, first_linear}}};
  for (const int size : sizes) {
    const auto times =
        times_at(*problem.profile, table, size, Outside::Extrapolate);
    if (!times) return {};
    for (std::size_t l = 0; l < layers; ++l) {
      const LayerTimes& row = (*times)[l];
      slices.forward[l].points.push_back(
          {double(size), row.forward.value(), row.forward.value()});
      slices.backward[l].points.push_back(
          {double(size), row.backward_input.value(), row.backward().value()});
    }
  }
  return slices;
}

std::vector<KindSlices> all_slices(const Problem& problem) {
  std::vector<KindSlices> all;
  for (const DeviceKind& kind : problem.cluster->kinds())
    for (const std::string& table : {kind.name, on_chip_table(kind.name)})
      if (problem.profile->times.count(table))
        all.push_back(slices_on(problem, table));
  return all;
}

// Which layers are on the path that takes longest at one size. Any path gives a
// bound.
std::vector<bool> longest_path(const Problem& problem,
                               const KindSlices& slices) {
  const auto& layers = problem.profile->layers;
  std::vector<double> length(layers.size(), 0);
  std::vector<int> before(layers.size(), -1);
  for (std::size_t l = 0; l < layers.size(); ++l) {
    for (const LayerId input : layers[l].inputs)
      if (before[l] < 0 || length[input.index()] > length[at(before[l])])
        before[l] = input.value;
    if (before[l] >= 0) length[l] = length[at(before[l])];
    length[l] += slices.forward[l].points.front().path +
                 slices.backward[l].points.front().path;
  }
  std::vector<bool> is_on(layers.size(), false);
  const auto last = std::max_element(length.begin(), length.end());
  for (int l = static_cast<int>(last - length.begin()); l >= 0;
       l = before[at(l)])
    is_on[at(l)] = true;
  return is_on;
}

double bound_at(const std::vector<KindSlices>& kinds,
                const std::vector<bool>& is_on_path, double p,
                double samples_per_device) {
  const double c = (1 - p) * samples_per_device;
  double sum = 0;
  for (std::size_t l = 0; l < is_on_path.size(); ++l) {
    const double of_path = is_on_path[l] ? p : 0;
    double forward = kInfinity, backward = kInfinity;
    for (const KindSlices& kind : kinds) {
      forward = std::min(forward, least_cost(kind.forward[l], of_path, c));
      backward = std::min(backward, least_cost(kind.backward[l], of_path, c));
    }
    sum += forward + backward;
  }
  return sum;
}

}  // namespace

double slice_bound(const Problem& problem) {
  const std::vector<KindSlices> kinds = all_slices(problem);
  if (kinds.empty()) return 0;
  for (const KindSlices& kind : kinds)
    if (kind.forward.empty()) return 0;
  const std::vector<bool> is_on_path = longest_path(problem, kinds.front());
  const double samples_per_device =
      double(problem.minibatch) / problem.cluster->num_devices();
  double bound = 0;
  for (int i = 0; i <= kWeights; ++i)
    bound = std::max(bound, bound_at(kinds, is_on_path, double(i) / kWeights,
                                     samples_per_device));
  return bound;
}

}  // namespace pipewright
