#include "pipewright/planners/pipemare/pipemare_cuts.h"

#include <algorithm>

#include "pipewright/base/index.h"
#include "pipewright/planners/cost_table.h"

namespace pipewright {
namespace {

// Fills each group up to `limit`, but leaves one item for every later group.
// The last group takes the rest.
std::vector<int> filled(int items, int groups, double limit,
                        const GroupLoad& load) {
  std::vector<int> ends;
  int first = 0;
  for (int group = 0; group < groups; ++group) {
    int end = first + 1;
    const int last_end = items - (groups - 1 - group);
    while (end < last_end && load(group, first, end + 1) <= limit) ++end;
    if (group == groups - 1) end = items;
    ends.push_back(end);
    first = end;
  }
  return ends;
}

double largest_load(const std::vector<int>& ends, const GroupLoad& load) {
  double largest = 0;
  int first = 0, group = 0;
  for (int end : ends) {
    largest = std::max(largest, load(group++, first, end));
    first = end;
  }
  return largest;
}

// Ends of the smallest possible stages: one layer each; or, if these are enough
// stages, one layer with weights each, together with the layers without weights
// after it.
std::vector<int> unit_ends(const Profile& profile, int stages) {
  std::vector<int> by_layer, by_weights;
  bool has_weights = false;
  for (int l = 0; l < profile.num_layers(); ++l) {
    by_layer.push_back(l + 1);
    const bool weights = !profile.layers[at(l)].parameters.empty();
    if (weights && has_weights) by_weights.push_back(l);
    has_weights = has_weights || weights;
  }
  by_weights.push_back(profile.num_layers());
  return static_cast<int>(by_weights.size()) >= stages ? by_weights : by_layer;
}

}  // namespace

std::vector<int> balanced_groups(int items, int groups, const GroupLoad& load) {
  std::vector<int> best = filled(items, groups, 0, load);
  double high = largest_load(best, load), low = 0;
  // Every success lowers the bound to a load that some group has, so few trials
  // are needed.
  for (int i = 0; i < 100 && high - low > 1e-12 * high; ++i) {
    const double middle = (low + high) / 2;
    std::vector<int> trial = filled(items, groups, middle, load);
    const double largest = largest_load(trial, load);
    if (largest > middle) {
      low = middle;
      continue;
    }
    high = largest;
    best = std::move(trial);
  }
  return best;
}

Result<DeepStages> deep_stages(const Problem& problem, int microbatch,
                               int stages) {
  if (stages > problem.profile->num_layers())
    return bad_configuration("--stages " + std::to_string(stages) +
                                 " is more than the " +
                                 std::to_string(problem.profile->num_layers()) +
                                 " layers of the model",
                             "a stage has at least one layer");
  PIPEWRIGHT_TRY(
      const CostTable costs,
      CostTable::create(*problem.profile, *problem.cluster, microbatch));
  const std::vector<int> units = unit_ends(*problem.profile, stages);
  const auto layer = [](const std::vector<int>& ends, int i) {
    return i == 0 ? 0 : ends[at(i - 1)];
  };
  DeepStages result;
  for (int end :
       balanced_groups(static_cast<int>(units.size()), stages,
                       [&](int, int first, int last) {
                         return costs
                             .compute(problem.cluster->devices()[0].kind,
                                      layer(units, first), layer(units, last))
                             .value();
                       }))
    result.ends.push_back(layer(units, end));
  const int workers = std::min(stages, problem.cluster->num_devices());
  int first_stage = 0;
  for (int end : balanced_groups(stages, workers, [&](int w, int from, int to) {
         const int kind = problem.cluster->devices()[at(w)].kind;
         return costs
             .compute(kind, layer(result.ends, from), layer(result.ends, to))
             .value();
       })) {
    result.stages_of.push_back(end - first_stage);
    first_stage = end;
  }
  return result;
}

}  // namespace pipewright
