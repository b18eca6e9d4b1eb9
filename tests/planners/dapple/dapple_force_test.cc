// DAPPLE's search compared with all partitions of small problems under its own
// objective.

#include "tests/planners/dapple/dapple_force.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "pipewright/planners/dapple/dapple.h"
#include "tests/planners/bi_partition/bi_partition_chain.h"

namespace pipewright {
namespace {

TEST_CASE("the search is near the best of all partitions by its objective") {
  std::mt19937 random(31);
  int equal = 0, rounds = 300;
  double largest = 1;
  for (int round = 0; round < rounds; ++round) {
    const int devices = 1 + static_cast<int>(random() % 5);
    const int microbatches = 1 + static_cast<int>(random() % 12);
    const Profile profile =
        random_chain(1 + static_cast<int>(random() % 6), random, 9'000'000);
    const Cluster cluster =
        *load_cluster(std::to_string(devices) + "xV100@1GB/s");
    const CostTable costs = *CostTable::create(profile, cluster, 1);
    Problem problem;
    problem.profile = &profile;
    problem.cluster = &cluster;
    problem.minibatch = microbatches;
    const double found = dapple_choices(costs, problem, 1)[0].latency;
    const double least = least_latency(costs, devices, 1e9, microbatches);
    CAPTURE(round);
    CHECK(found >= least * (1 - 1e-9));
    equal += found <= least * (1 + 1e-9);
    largest = std::max(largest, found / least);
  }
  MESSAGE("equal in " << equal << " of " << rounds << ", largest ratio "
                      << largest);
  CHECK(equal == rounds);
  CHECK(largest <= 1 + 1e-9);
}

}  // namespace
}  // namespace pipewright
