// Layers split between two devices: the partition, and what it means for the
// model.

#include "pipewright/planners/bapipe/bapipe_split.h"

#include <doctest/doctest.h>

#include "pipewright/model/builder.h"
#include "pipewright/planners/bapipe/bapipe_partition.h"
#include "tests/planners/bapipe/bapipe_chains.h"

namespace pipewright {
namespace {

using namespace test;

// Chains of linears of 64 outputs each, as a model of the same shape.
Model linear_chain(int layers) {
  ModelBuilder builder("chain");
  Source x = *builder.add_input({"features", {8}});
  for (int l = 0; l < layers; ++l)
    x = *builder.add_layer(
        {.name = "layer" + std::to_string(l),
         .inputs = {x},
         .attributes = {{"out_features", std::int64_t{64}}}});
  return *std::move(builder).build();
}

std::vector<bool> all_layers(const Profile& profile) {
  return std::vector<bool>(profile.layers.size(), true);
}

TEST_CASE(
    "random chains: stages of the split model have the partition's work") {
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
    const auto split =
        split_partition(costs, profile, all_layers(profile), whole);
    if (!split) continue;
    ++split_some;
    CHECK(split->bottleneck < whole);
    const Model model = linear_chain(layers);
    const auto stages = split_stages(costs, model, *split);
    REQUIRE(stages);
    const auto refined = with_splits(model, stages->splits);
    REQUIRE(refined);
    REQUIRE(stages->ends.size() == 4);
    CHECK(stages->ends.back() == refined->num_layers());
    // Every stage has its share of each layer's outputs.
    int first = 0;
    SplitEnd before;
    for (std::size_t s = 0; s < 4; ++s) {
      const SplitEnd end = split->ends[s];
      std::int64_t outputs = 0;
      for (int l = first; l < stages->ends[s]; ++l)
        if (refined->layer(LayerId(l)).kind == LayerKind::Linear)
          outputs += num_outputs(refined->layer(LayerId(l)));
      CHECK(outputs ==
            64 * (end.block - before.block) + end.parts - before.parts);
      first = stages->ends[s];
      before = end;
    }
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
  const auto split =
      split_partition(costs, profile, all_layers(profile), Seconds(6));
  REQUIRE(split);
  CHECK(split->bottleneck.value() == doctest::Approx(4.5));
  CHECK(split->promised.value() == doctest::Approx(9 + 7 * 4.5));
  CHECK(split->ends[0] == SplitEnd{1, 32});
  CHECK(split->ends[1] == SplitEnd{3, 0});
  const auto none =
      split_partition(costs, profile, {true, false, true}, Seconds(6));
  CHECK_FALSE(none);
}

}  // namespace
}  // namespace pipewright
