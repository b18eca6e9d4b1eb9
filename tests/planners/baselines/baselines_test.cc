// The baseline planners compared with exhaustive search on small problems, and
// the lower bounds with values by hand.

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "pipewright/planners/baselines/balanced.h"
#include "pipewright/planners/baselines/torchgpipe.h"
#include "pipewright/planners/bounds/bounds.h"
#include "pipewright/planners/planner_registry.h"
#include "tests/planners/random_problems.h"

namespace pipewright {
namespace {

// Every way to cut `layers` layers into `stages` stages.
std::vector<std::vector<int>> all_ends(int layers, int stages) {
  if (stages == 1) return {{layers}};
  std::vector<std::vector<int>> all;
  for (int last = stages - 1; last < layers; ++last)
    for (std::vector<int> ends : all_ends(last, stages - 1)) {
      ends.push_back(layers);
      all.push_back(std::move(ends));
    }
  return all;
}

// Slowest stage or link where every device computes while it transfers.
double slowest(const std::vector<int>& ends, const CostTable& costs,
               const Cluster& cluster, bool communication) {
  double most = 0;
  for (std::size_t s = 0; s < ends.size(); ++s) {
    const int first = s == 0 ? 0 : ends[s - 1];
    const int kind = cluster.devices()[s].kind;
    most = std::max(most, costs.compute(kind, first, ends[s]).value());
    if (s == 0 || !communication) continue;
    const Link& link = *cluster.link(DeviceId(s - 1), DeviceId(s));
    const Seconds way = link.latency + costs.crossing(first) / link.bandwidth;
    most = std::max(most, way.value() * (link.duplex == Duplex::Half ? 2 : 1));
  }
  return most;
}

}  // namespace

TEST_CASE("balanced equals exhaustive search over contiguous partitions") {
  RandomProblems random(5);
  int compared = 0;
  for (int i = 0; i < 300; ++i) {
    const RandomProblem made = random.next(8);
    const auto costs =
        CostTable::create(*made.profile, *made.cluster, 4).value();
    const int most =
        std::min(made.cluster->num_devices(), made.profile->num_layers());
    for (int stages = 1; stages <= most; ++stages)
      for (bool communication : {true, false}) {
        double best = 1e300;
        for (const auto& ends : all_ends(made.profile->num_layers(), stages))
          best = std::min(best,
                          slowest(ends, costs, *made.cluster, communication));
        const Balance balance =
            balanced_stages(costs, *made.cluster, stages, communication);
        CHECK(balance.bottleneck.value() == best);
        CHECK(slowest(balance.ends, costs, *made.cluster, communication) ==
              best);
        ++compared;
      }
  }
  CHECK(compared > 600);
}

// Among a thousand positions: a model of more layers is cut between groups of
// them, and the plan says so.
TEST_CASE("plans of a very long model say between how many groups they cut") {
  RandomProblems random(6);
  const auto problem_of = [&](int least, int most) {
    RandomProblem made = random.next(most);
    while (made.profile->num_layers() < least) made = random.next(most);
    made.problem.memory_limit = Bytes(0);
    return made;
  };
  const RandomProblem longer = problem_of(1500, 2000);
  const RandomProblem shorter = problem_of(500, 1000);
  for (const auto& planner : {balanced_planner(), gpipe_planner()}) {
    CAPTURE(planner->name());
    const int groups = planner->plan(longer.problem).value().layer_groups;
    CHECK(groups > 250);
    CHECK(groups <= 1001);
    CHECK(planner->plan(shorter.problem).value().layer_groups == 0);
  }
}

TEST_CASE("the block partition cuts all layers, none of the blocks empty") {
  RandomProblems random(7);
  for (int i = 0; i < 500; ++i) {
    const int layers = random.number(1, 40);
    const int blocks = random.number(1, std::min(layers, 8));
    std::vector<double> costs;
    for (int l = 0; l < layers; ++l) costs.push_back(random.number(0, 9));
    const auto ends = block_partition(costs, blocks);
    REQUIRE(ends.size() == static_cast<std::size_t>(blocks));
    CHECK(ends.back() == layers);
    CHECK(ends.front() > 0);
    CHECK(std::adjacent_find(ends.begin(), ends.end(),
                             std::greater_equal<>()) == ends.end());
  }
}

TEST_CASE("the block partition evens out: blocks differ by one layer at most") {
  // Costs between 0 and 1 of which both occur, so that scaling changes nothing,
  // and so many layers that no block is ever down to one.
  RandomProblems random(11);
  for (int i = 0; i < 300; ++i) {
    const int blocks = random.number(2, 5);
    std::vector<double> costs = {0, 1};
    for (int l = 0; l < 60; ++l) costs.push_back(random.number(1, 8) / 8.0);
    const auto ends = block_partition(costs, blocks);
    double least = 1e300, most = 0;
    int first = 0;
    for (int end : ends) {
      const double sum =
          std::accumulate(costs.begin() + first, costs.begin() + end, 0.0);
      least = std::min(least, sum);
      most = std::max(most, sum);
      first = end;
    }
    CHECK(most <= least + 1);
  }
}

namespace {

// Two layers of 1 s forward, 1 s + 1 s backward a sample on V100, T4 half as
// fast; 1 GB of weights in the first.
Profile two_layers() {
  Profile profile;
  profile.layers.resize(2);
  profile.layers[0].name = "a";
  profile.layers[1].name = "b";
  profile.layers[1].inputs = {LayerId(0)};
  profile.layers[1].keeps_input = {false};
  profile.layers[0].parameters = {ParameterId(0)};
  profile.parameters = {{"w", Bytes(1'000'000'000)}};
  profile.sizes[1] = {{Bytes(8), Bytes(0), Bytes(0)},
                      {Bytes(8), Bytes(0), Bytes(0)}};
  for (auto [kind, seconds] : {std::pair{"V100", 1.0}, {"T4", 2.0}}) {
    const Seconds s(seconds);
    profile.times[kind][1] = {{s, s, s, Seconds(0)}, {s, s, s, Seconds(0)}};
  }
  return profile;
}

Bounds bounds_on(const std::string& cluster_text, int minibatch,
                 std::vector<int> microbatches, Method method) {
  const Profile profile = two_layers();
  const Cluster cluster = load_cluster(cluster_text).value();
  Problem problem;
  problem.profile = &profile;
  problem.cluster = &cluster;
  problem.minibatch = minibatch;
  problem.microbatches = std::move(microbatches);
  problem.method = method;
  return bounds_of(problem);
}

}  // namespace

TEST_CASE("lower bounds by hand") {
  const auto close = [](double x) { return doctest::Approx(x).epsilon(1e-12); };
  // 8 samples x 6 s over 4 devices.
  Bounds four = bounds_on("4xV100@1GB/s", 8, {1, 2}, Method::Sync);
  CHECK(four.work.value() == close(12));
  // Layer a: 16 s of backward on r devices, and 2 (r - 1) / r s of summing.
  CHECK(four.layer.value() == close(16.0 / 4 + 1.5));
  // One sample, forward 1 + 1, input gradients 1 + 1.
  CHECK(four.path.value() == close(4));
  // Two fast and two slow devices are three fast ones.
  CHECK(bounds_on("2xV100+2xT4@1GB/s", 8, {1}, Method::Sync).work.value() ==
        close(16));
  // Microbatches of 8 on two devices: parts of 4 samples at least.
  CHECK(bounds_on("2xV100@1GB/s", 8, {8}, Method::Sync).path.value() ==
        close(16));
  // Overlapping minibatches: only the work counts.
  const Bounds loose = bounds_on("4xV100@1GB/s", 8, {8}, Method::Stash);
  CHECK(loose.largest() == loose.work);
}

}  // namespace pipewright
