// BaPipe's partitions compared with all partitions of small chains.

#include "pipewright/planners/bapipe/bapipe_partition.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "tests/planners/bapipe/bapipe_chains.h"

namespace pipewright {
namespace {

using namespace test;

constexpr BaPipeSchedule kSchedules[] = {
    BaPipeSchedule::OneAs, BaPipeSchedule::FbpAs, BaPipeSchedule::Sno,
    BaPipeSchedule::So};

// Calls `visit` with every way to end n stages before block b.
template <class Visit>
void every_ends(int n, int b, StageEnds& ends, const Visit& visit) {
  const int s = static_cast<int>(ends.size());
  if (s == n - 1) {
    ends.push_back(b);
    visit(ends);
    ends.pop_back();
    return;
  }
  const int before = ends.empty() ? 0 : ends.back();
  for (int end = before + 1; end <= b - (n - 1 - s); ++end) {
    ends.push_back(end);
    every_ends(n, b, ends, visit);
    ends.pop_back();
  }
}

Bytes bytes_over(const StageCosts& costs, const StageEnds& ends) {
  Bytes sum;
  for (std::size_t s = 0; s + 1 < ends.size(); ++s)
    sum += costs.blocks().crossing(ends[s]);
  return sum;
}

struct Best {
  Seconds cost{1e300};
  Bytes bytes;
};
Best by_brute_force(const StageCosts& costs, const PartitionRules& rules) {
  Best best;
  StageEnds ends;
  every_ends(
      costs.num_stages(), costs.blocks().num_blocks(), ends,
      [&](const StageEnds& e) {
        const Seconds cost = largest_cost(costs, rules, e);
        const Bytes bytes = bytes_over(costs, e);
        if (cost < best.cost || (cost == best.cost && bytes < best.bytes))
          best = {cost, bytes};
      });
  return best;
}

struct Random {
  Profile profile;
  Cluster cluster;
  Problem problem;
};
Random random_problem(std::mt19937& random, int num_kinds,
                      std::int64_t memory) {
  ChainCluster of;
  const int layers = 2 + static_cast<int>(random() % 7);
  const int devices = 1 + static_cast<int>(random() % 4);
  of.memory.assign(static_cast<std::size_t>(num_kinds), memory);
  for (int d = 0; d < devices; ++d)
    of.kinds.push_back(static_cast<int>(random()) & (num_kinds - 1));
  of.bandwidth = 1 + random() % 10;
  Random made{chain_profile(random_chain(layers, random), {1.0, 1.7}),
              chain_cluster(of),
              {}};
  return made;
}

TEST_CASE("partitions equal those of exhaustive search") {
  std::mt19937 random(7);
  int found = 0, impossible = 0;
  for (int round = 0; round < 400; ++round) {
    Random made = random_problem(random, 1 + round % 2, 60 + random() % 700);
    const Problem problem =
        problem_of(made.profile, made.cluster, 1 + int(random() % 6));
    const auto blocks = BlockCosts::create(made.profile, made.cluster, 1);
    REQUIRE(blocks);
    const int n = std::min(made.cluster.num_devices(), blocks->num_blocks());
    for (const auto& order : device_orders(made.cluster, n)) {
      const StageCosts costs(*blocks, problem, kSchedules[round % 4], order);
      PartitionRules rules;
      rules.links = round % 3 == 0;
      rules.memory = round % 5 < 3;
      if (round % 7 == 0) rules.largest_crossing = Bytes(30);
      const auto ends = balanced_ends(costs, rules);
      const Best best = by_brute_force(costs, rules);
      REQUIRE(ends.has_value() == (best.cost < Seconds(1e299)));
      ends ? ++found : ++impossible;
      if (!ends) continue;
      CHECK(largest_cost(costs, rules, *ends) == best.cost);
      CHECK(bytes_over(costs, *ends) == best.bytes);
    }
  }
  CHECK(found > 100);
  CHECK(impossible > 20);
}

TEST_CASE("repairing memory never beats the exact partition") {
  std::mt19937 random(11);
  int repaired_some = 0, missed_some = 0;
  for (int round = 0; round < 600; ++round) {
    Random made = random_problem(random, 1 + round % 2, 100 + random() % 400);
    const Problem problem = problem_of(made.profile, made.cluster, 4);
    const auto blocks = BlockCosts::create(made.profile, made.cluster, 1);
    REQUIRE(blocks);
    const int n = std::min(made.cluster.num_devices(), blocks->num_blocks());
    const auto order = device_orders(made.cluster, n)[0];
    const StageCosts costs(*blocks, problem, kSchedules[round % 4], order);
    const auto start = balanced_ends(costs);
    REQUIRE(start);
    const StageEnds ends = repaired_for_memory(costs, *start);
    CHECK(memory_excess(costs, ends) <= memory_excess(costs, *start));
    const auto exact = balanced_ends(costs, {.memory = true});
    if (memory_excess(costs, ends) == Bytes(0)) {
      REQUIRE(exact);
      CHECK(largest_cost(costs, {.memory = true}, ends) >=
            largest_cost(costs, {.memory = true}, *exact));
      if (ends != *start) ++repaired_some;
    } else if (exact) {
      ++missed_some;
    }
  }
  // Both cases occur: the heuristic finds a partition, and it finds none.
  CHECK(repaired_some > 10);
  CHECK(missed_some > 0);
}

TEST_CASE("shares of unequal devices approach T0 / T_n") {
  // 300 equal layers; one device three times as slow as the other.
  const Profile profile =
      chain_profile(std::vector<ChainLayer>(300), {1.0, 3.0});
  ChainCluster of;
  of.kinds = {0, 1};
  of.memory = {1 << 30, 1 << 30};
  const Cluster cluster = chain_cluster(of);
  const Problem problem = problem_of(profile, cluster, 8);
  const auto blocks = BlockCosts::create(profile, cluster, 1);
  REQUIRE(blocks);
  const StageCosts costs(*blocks, problem, BaPipeSchedule::Sno,
                         {DeviceId(0), DeviceId(1)});
  const auto ends = balanced_ends(costs);
  REQUIRE(ends);
  CHECK(*ends == StageEnds{225, 300});  // T0/T_n = 3/4 and 1/4
}

TEST_CASE("orders of devices: each sequence of kinds once") {
  ChainCluster of;
  of.kinds = {0, 0, 1, 1};
  of.memory = {1, 1};
  const auto orders = device_orders(chain_cluster(of), 4);
  CHECK(orders.size() == 6);
  CHECK(std::set(orders.begin(), orders.end()).size() == 6);
  for (auto order : orders) {
    std::sort(order.begin(), order.end());
    CHECK(order == orders[0]);
  }
  of.kinds = {0, 0, 0, 0};
  CHECK(device_orders(chain_cluster(of), 4).size() == 1);
  of.kinds.assign(40, 0);
  for (std::size_t d = 20; d < 40; ++d) of.kinds[d] = 1;
  CHECK(device_orders(chain_cluster(of), 40).size() == 2);
  CHECK(device_orders(chain_cluster(of), 2).size() == 4);
}

TEST_CASE("long chains are taken as blocks") {
  const Profile profile = chain_profile(std::vector<ChainLayer>(3000));
  ChainCluster of;
  of.kinds = {0, 0, 0};
  const Cluster cluster = chain_cluster(of);
  const Problem problem = problem_of(profile, cluster, 8);
  const auto blocks = BlockCosts::create(profile, cluster, 1);
  REQUIRE(blocks);
  CHECK(blocks->num_blocks() == 512);
  CHECK(blocks->position(0) == 0);
  CHECK(blocks->position(512) == 3000);
  for (int b = 0; b < 512; ++b)
    CHECK(blocks->position(b) < blocks->position(b + 1));
  const StageCosts costs(*blocks, problem, BaPipeSchedule::Sno,
                         device_orders(cluster, 3)[0]);
  const auto ends = balanced_ends(costs);
  REQUIRE(ends);
  CHECK(largest_cost(costs, {}, *ends).value() < 3 * 1000 * 1.01);
}

}  // namespace
}  // namespace pipewright
