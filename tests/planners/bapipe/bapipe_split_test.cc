// Layers split between two devices: the refined profile has the same work, and
// its plan takes the time that the split partition promises.

#include "pipewright/planners/bapipe/bapipe_split.h"

#include <doctest/doctest.h>

#include "pipewright/planners/bapipe/bapipe_partition.h"
#include "pipewright/planners/pipeline.h"
#include "tests/planners/bapipe/bapipe_chains.h"

namespace pipewright {
namespace {

using namespace test;

Seconds total(const Profile& profile, const std::string& kind) {
  Seconds sum;
  for (const LayerTimes& t : profile.times.at(kind).at(1))
    sum += t.forward + t.backward();
  return sum;
}

TEST_CASE("a split layer is the same work, and its cut carries in + f out") {
  const Profile whole = chain_profile(
      {{1, 2, 640, 64, 128}, {4, 8, 320, 640, 64}, {1, 2, 64, 64, 64}});
  for (int parts : {1, 16, 63}) {
    const auto split = split_layer(whole, LayerId(1), parts);
    REQUIRE(split);
    REQUIRE(split->check("split"));
    CHECK(split->num_layers() == 4);
    CHECK(split->parameter_bytes() == whole.parameter_bytes());
    CHECK(total(*split, "k0").value() ==
          doctest::Approx(total(whole, "k0").value()));
    ChainCluster of;
    of.kinds = {0};
    const Cluster cluster = chain_cluster(of);
    const auto table = CostTable::create(*split, cluster, 1);
    REQUIRE(table);
    CHECK(table->crossing(1) == Bytes(640));
    CHECK(table->crossing(2) == Bytes(640 + 320 * parts / 64));
    CHECK(table->crossing(3) == Bytes(320));
  }
}

TEST_CASE("an error says why a layer cannot be split") {
  Profile profile = chain_profile({{}, {}, {}});
  CHECK_FALSE(split_layer(profile, LayerId(0), 0));
  CHECK_FALSE(split_layer(profile, LayerId(0), 64));
  CHECK(why_not_split(profile, LayerId(1)).empty());
  profile.layers[1].output_is_view = true;
  CHECK_FALSE(why_not_split(profile, LayerId(0)).empty());
  CHECK_FALSE(why_not_split(profile, LayerId(1)).empty());
  CHECK_FALSE(split_layer(profile, LayerId(1), 32));
  profile.layers[1].output_is_view = false;
  profile.layers[2].parameters = profile.layers[0].parameters;
  CHECK_FALSE(why_not_split(profile, LayerId(0)).empty());
}

TEST_CASE(
    "random chains: the plan over the refined profile keeps the promise") {
  std::mt19937 random(3);
  int split_some = 0;
  for (int round = 0; round < 200; ++round) {
    const int layers = 4 + static_cast<int>(random() % 5);
    const Profile profile =
        chain_profile(random_chain(layers, random), {1.0, 1.5});
    ChainCluster of;
    of.kinds = {0, round % 2, 0, round % 2};
    of.memory = {1 << 30, 1 << 30};
    of.execution = ExecutionClass::Async;
    of.splits_layers = true;
    const Cluster cluster = chain_cluster(of);
    const Problem problem = problem_of(profile, cluster, 8);
    const auto blocks = BlockCosts::create(profile, cluster, 1);
    REQUIRE(blocks);
    const StageCosts costs(*blocks, problem, BaPipeSchedule::OneAs,
                           device_orders(cluster, 4)[0]);
    const auto ends = balanced_ends(costs);
    REQUIRE(ends);
    const Seconds whole = largest_cost(costs, {}, *ends);
    const auto split = split_partition(costs, profile, whole);
    if (!split) continue;
    ++split_some;
    CHECK(split->bottleneck < whole);
    const auto refined = refined_profile(profile, costs, *split);
    REQUIRE(refined);
    REQUIRE(refined->profile.check("refined"));
    Problem over = problem_of(refined->profile, cluster, 8);
    Pipeline pipeline;
    for (std::size_t s = 0; s < 4; ++s)
      pipeline.stages.push_back(
          {refined->ends[s], -1, {costs.devices()[s]}, false});
    const auto result = planned(pipeline, over, "bapipe");
    REQUIRE(result);
    // Fill and drain of unequal stages may hide: the promise is not below the
    // work of the slowest stage nor above one slowest slot per slot.
    CHECK(result->estimate.step >= split->bottleneck * (8 * (1 - 1e-9)));
    CHECK(result->estimate.step.value() <=
          split->bottleneck.value() * (8 + 4 - 1) * 1.02);
  }
  CHECK(split_some > 100);
}

TEST_CASE("equal work splits to T0 on equal devices") {
  // Three layers on two devices: one and a half each.
  const Profile profile = chain_profile({{}, {}, {}});
  ChainCluster of;
  of.kinds = {0, 0};
  of.execution = ExecutionClass::Async;
  of.splits_layers = true;
  const Cluster cluster = chain_cluster(of);
  const Problem problem = problem_of(profile, cluster, 8);
  const auto blocks = BlockCosts::create(profile, cluster, 1);
  REQUIRE(blocks);
  const StageCosts costs(*blocks, problem, BaPipeSchedule::OneAs,
                         device_orders(cluster, 2)[0]);
  const auto split = split_partition(costs, profile, Seconds(6));
  REQUIRE(split);
  CHECK(split->bottleneck.value() == doctest::Approx(4.5));
  CHECK(split->promised.value() == doctest::Approx(9 + 7 * 4.5));
  CHECK(split->ends[0] == SplitEnd{1, 32});
  CHECK(split->ends[1] == SplitEnd{3, 0});
}

}  // namespace
}  // namespace pipewright
