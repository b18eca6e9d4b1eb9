#include "pipewright/planners/bounds/least_times.h"

#include <algorithm>

#include "pipewright/base/index.h"
#include "pipewright/base/infinity.h"
#include "pipewright/profile/tiers.h"

namespace pipewright {

int largest_microbatch(const Problem& problem) {
  int largest = 0;
  for (int size : problem.microbatches) largest = std::max(largest, size);
  return largest;
}

namespace {

// Between two profiled sizes times are linear, and outside them the time per
// sample is constant. So the time per sample is smallest at a profiled size or
// at an end of the interval. Any size in it can occur, because replicas split
// microbatches.
std::vector<int> least_time_sizes(const Profile& profile,
                                  const std::string& table, int min_size,
                                  int max_size) {
  std::vector<int> sizes = {min_size, max_size};
  if (auto known = profile.times.find(table); known != profile.times.end())
    for (const auto& [size, rows] : known->second)
      if (size > min_size && size < max_size) sizes.push_back(size);
  return sizes;
}

std::vector<std::string> tables_of(const Problem& problem, int kind) {
  const auto& name = problem.cluster->kinds()[at(kind)].name;
  std::vector<std::string> tables = {name};
  if (problem.profile->times.count(on_chip_table(name)))
    tables.push_back(on_chip_table(name));
  return tables;
}

}  // namespace

void visit_least_times(
    const Problem& problem, int kind, int min_size, int max_size,
    const std::function<void(std::size_t, const LayerTimes&, int)>& visit) {
  for (const std::string& table : tables_of(problem, kind))
    for (int size :
         least_time_sizes(*problem.profile, table, min_size, max_size))
      if (auto times =
              times_at(*problem.profile, table, size, Outside::Extrapolate))
        for (std::size_t l = 0; l < times->size(); ++l)
          visit(l, (*times)[l], size);
}

KindTimes least_times(const Problem& problem, int kind) {
  KindTimes least(problem.profile->layers.size());
  visit_least_times(
      problem, kind, 1, largest_microbatch(problem),
      [&](std::size_t l, const LayerTimes& times, int size) {
        LeastTimes& layer = least[l];
        layer.forward = std::min(layer.forward, times.forward.value() / size);
        layer.backward =
            std::min(layer.backward, times.backward().value() / size);
        layer.input =
            std::min(layer.input, times.backward_input.value() / size);
        layer.update = std::min(layer.update, times.update.value());
      });
  return least;
}

KindTimes least_work(const std::vector<KindTimes>& kinds) {
  KindTimes work = kinds[0];
  for (const KindTimes& kind : kinds)
    for (std::size_t l = 0; l < work.size(); ++l) {
      work[l].forward = std::min(work[l].forward, kind[l].forward);
      work[l].backward = std::min(work[l].backward, kind[l].backward);
      work[l].input = std::min(work[l].input, kind[l].input);
      work[l].update = std::min(work[l].update, kind[l].update);
    }
  return work;
}

double WorkBeforeSums::seconds(const KindTimes& work) const {
  double seconds = 0;
  for (std::size_t l = 0; l < work.size(); ++l) {
    if (forward[l]) seconds += work[l].forward;
    if (input[l]) seconds += work[l].input;
    if (weights[l]) seconds += work[l].backward - work[l].input;
  }
  return seconds;
}

WorkBeforeSums before_sums(const std::vector<std::size_t>& layers,
                           const Profile& profile) {
  const std::vector<bool> none(profile.layers.size(), false);
  WorkBeforeSums before{none, none, none};
  for (std::size_t layer : layers)
    before.weights[layer] = before.input[layer] = true;
  for (std::size_t l = 0; l < none.size(); ++l)
    for (LayerId input : profile.layers[l].inputs)
      if (before.input[input.index()]) before.input[l] = true;
  before.forward = before.input;
  for (std::size_t l = none.size(); l-- > 0;)
    if (before.forward[l])
      for (LayerId input : profile.layers[l].inputs)
        before.forward[input.index()] = true;
  return before;
}

double work_before_sums(const std::vector<std::size_t>& layers,
                        const Profile& profile, const KindTimes& work) {
  return before_sums(layers, profile).seconds(work);
}

std::vector<double> least_output_bytes(const Problem& problem) {
  const Profile& profile = *problem.profile;
  std::vector<int> sizes = {1, largest_microbatch(problem)};
  for (const auto& [size, rows] : profile.sizes)
    if (size < sizes[1]) sizes.push_back(size);
  std::vector<double> least(profile.layers.size(), kInfinity);
  for (int size : sizes)
    if (auto rows = sizes_at(profile, size, Outside::Extrapolate))
      for (std::size_t l = 0; l < rows->size(); ++l) {
        const auto bytes = static_cast<double>((*rows)[l].output.value());
        least[l] = std::min(least[l], std::max(0.0, bytes / size - 1));
      }
  return least;
}

}  // namespace pipewright
