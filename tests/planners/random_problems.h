// Random small problems for tests of planners: chains with skips, one or two
// kinds of devices, one or two hosts.

#pragma once

#include <memory>
#include <random>
#include <string>

#include "pipewright/cluster/cluster.h"
#include "pipewright/estimate/estimator.h"
#include "pipewright/planners/planner.h"

namespace pipewright {

struct RandomProblem {
  std::unique_ptr<Profile> profile;
  std::unique_ptr<Cluster> cluster;
  Problem problem;
};

class RandomProblems {
 public:
  explicit RandomProblems(unsigned seed) : random_(seed) {}

  RandomProblem next(int most_layers = 10) {
    RandomProblem made;
    const bool mixed = chance(4);
    made.cluster =
        std::make_unique<Cluster>(load_cluster(cluster_text(mixed)).value());
    made.profile = std::make_unique<Profile>(profile(most_layers));
    Problem& problem = made.problem;
    problem.profile = made.profile.get();
    problem.cluster = made.cluster.get();
    problem.microbatches =
        chance(2) ? std::vector<int>{4, 8} : std::vector<int>{2, 4, 16};
    problem.minibatch = 16;
    problem.optimizer_words = number(0, 2);
    if (chance(5)) problem.memory_limit = Bytes(number(40'000, 4'000'000));
    problem.estimate = simulating_estimator(problem);
    return made;
  }

  int number(int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random_);
  }
  bool chance(int one_in) { return number(1, one_in) == 1; }

 private:
  std::string cluster_text(bool mixed) {
    const std::string link = "@" + std::to_string(number(1, 100)) + "MB/s";
    if (mixed)
      return std::to_string(number(1, 2)) + "xV100+" +
             std::to_string(number(1, 2)) + "xT4" + link;
    if (chance(4))
      return "2x" + std::to_string(number(1, 2)) + "xV100" + link + "/" +
             std::to_string(number(1, 50)) + "MB/s";
    return std::to_string(number(1, 4)) + "xV100" + link;
  }

  ProfileLayer layer(int index) {
    ProfileLayer made;
    made.name = "layer" + std::to_string(index);
    made.kind = "test";
    if (index > 0) made.inputs.push_back(LayerId(index - 1));
    if (index > 2 && chance(4))
      made.inputs.push_back(LayerId(number(0, index - 2)));
    made.keeps_input.assign(made.inputs.size(), chance(2));
    made.keeps_output = chance(2);
    return made;
  }

  Seconds time() { return Seconds(number(0, 20) * 1e-3); }

  Profile profile(int most_layers) {
    Profile made;
    made.model = "random";
    made.origin.source = "random";
    const int layers = number(1, most_layers);
    for (int l = 0; l < layers; ++l) {
      made.layers.push_back(layer(l));
      if (chance(2)) {
        made.layers.back().parameters.push_back(
            ParameterId(made.parameters.size()));
        made.parameters.push_back(
            {"weight" + std::to_string(l), Bytes(number(0, 100'000))});
      }
    }
    for (int size : {2, 8}) {
      auto& sizes = made.sizes[size];
      for (int l = 0; l < layers; ++l)
        sizes.push_back(
            {Bytes(number(1, 50'000)), Bytes(number(0, 1000)), Bytes(0)});
      for (const char* kind : {"V100", "T4"}) {
        auto& times = made.times[kind][size];
        for (int l = 0; l < layers; ++l)
          times.push_back(
              {time(), time(), time(), Seconds(number(0, 3) * 1e-4)});
      }
    }
    return made;
  }

  std::mt19937 random_;
};

// Two layers in a row, the second with all weights. The caller sets their sizes
// and times.
inline void keep_two_layers(Profile& profile, Bytes weights) {
  profile.layers.resize(2);
  profile.layers[0].parameters.clear();
  profile.layers[1].inputs = {LayerId(0)};
  profile.layers[1].keeps_input = {false};
  profile.layers[1].parameters = {ParameterId(0)};
  profile.parameters = {{"heavy", weights}};
}

}  // namespace pipewright
