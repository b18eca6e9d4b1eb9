#include "pipewright/planners/pipemare/pipemare_cuts.h"

#include <algorithm>

#include "pipewright/planners/cost_table.h"

namespace pipewright {
namespace {

// Fills each run up to `most`, but leaves one thing for every run behind it.
// The last run takes what is left.
std::vector<int> filled(int items, int runs, double most,
                        const std::function<double(int, int, int)>& load) {
  std::vector<int> ends;
  int first = 0;
  for (int run = 0; run < runs; ++run) {
    int end = first + 1;
    const int furthest = items - (runs - 1 - run);
    while (end < furthest && load(run, first, end + 1) <= most) ++end;
    if (run == runs - 1) end = items;
    ends.push_back(end);
    first = end;
  }
  return ends;
}

double largest(const std::vector<int>& ends,
               const std::function<double(int, int, int)>& load) {
  double most = 0;
  int first = 0;
  for (std::size_t run = 0; run < ends.size(); ++run) {
    most = std::max(most, load(static_cast<int>(run), first, ends[run]));
    first = ends[run];
  }
  return most;
}

// Ends of the smallest runs of layers that a stage may be: one layer each, or
// one layer with weights each, what has none going with the one before.
std::vector<int> unit_ends(const Profile& profile, int stages) {
  std::vector<int> by_layer, by_weights;
  bool has_weights = false;
  for (int l = 0; l < profile.num_layers(); ++l) {
    by_layer.push_back(l + 1);
    const bool weights =
        !profile.layers[static_cast<std::size_t>(l)].parameters.empty();
    if (weights && has_weights) by_weights.push_back(l);
    has_weights = has_weights || weights;
  }
  by_weights.push_back(profile.num_layers());
  return static_cast<int>(by_weights.size()) >= stages ? by_weights : by_layer;
}

}  // namespace

std::vector<int> balanced_runs(
    int items, int runs, const std::function<double(int, int, int)>& load) {
  std::vector<int> best = filled(items, runs, 0, load);
  double high = largest(best, load), low = 0;
  // Every trial that succeeds brings the bound down to a load that some run
  // really has, so few are needed.
  for (int i = 0; i < 100 && high - low > 1e-12 * high; ++i) {
    const double middle = (low + high) / 2;
    std::vector<int> trial = filled(items, runs, middle, load);
    const double most = largest(trial, load);
    if (most > middle) {
      low = middle;
      continue;
    }
    high = most;
    best = std::move(trial);
  }
  return best;
}

Result<DeepStages> deep_stages(const Problem& problem, int microbatch,
                               int stages) {
  if (stages > problem.profile->num_layers())
    return bad_configuration(
        std::to_string(stages) + " stages are asked for, but the model has " +
            std::to_string(problem.profile->num_layers()) + " layers",
        "a stage has one layer at least");
  PIPEWRIGHT_TRY(
      const CostTable costs,
      CostTable::create(*problem.profile, *problem.cluster, microbatch));
  const std::vector<int> units = unit_ends(*problem.profile, stages);
  const auto layer = [](const std::vector<int>& ends, int i) {
    return i == 0 ? 0 : ends[static_cast<std::size_t>(i) - 1];
  };
  DeepStages result;
  for (int end :
       balanced_runs(static_cast<int>(units.size()), stages,
                     [&](int, int first, int last) {
                       return costs
                           .compute(problem.cluster->devices()[0].kind,
                                    layer(units, first), layer(units, last))
                           .value();
                     }))
    result.ends.push_back(layer(units, end));
  const int workers = std::min(stages, problem.cluster->num_devices());
  int first_stage = 0;
  for (int end : balanced_runs(stages, workers, [&](int w, int from, int to) {
         const int kind =
             problem.cluster->devices()[static_cast<std::size_t>(w)].kind;
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
