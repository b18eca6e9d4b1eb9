// Random chains for tests and benchmarks of bi-partition.

#pragma once

#include <random>

#include "pipewright/planners/planner.h"
#include "tests/plan/chain.h"

namespace pipewright {

// Times in whole milliseconds; sizes up to `max_bytes` (0: nothing moves).
inline Profile random_chain(int num_layers, std::mt19937& random,
                            int max_bytes) {
  const auto below = [&](int end) {
    return static_cast<int>(random() % static_cast<unsigned>(end));
  };
  Profile profile;
  for (int l = 0; l < num_layers; ++l) {
    ProfileLayer& layer = add_layer(profile, Bytes(0));
    if (l > 0) layer.keeps_input = {below(2) == 0};
    layer.keeps_output = below(2) == 0;
    const auto bytes = [&] { return Bytes(below(max_bytes + 1)); };
    profile.parameters.back().bytes = bytes();
    profile.sizes[1].push_back({bytes(), bytes(), Bytes(0)});
    const auto time = [&] { return Seconds(0.001 * (1 + below(9))); };
    profile.times["V100"][1].push_back({time(), time(), time(), Seconds(0)});
  }
  return profile;
}

}  // namespace pipewright
