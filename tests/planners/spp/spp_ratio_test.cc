// SPP as a whole: its plan does not depend on how devices are named, its ratio
// to the optimum holds on the final plan and against all plans of small
// problems, and each of its parts can be switched off.

#include "pipewright/planners/spp/spp_ratio.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>

#include "pipewright/base/files.h"
#include "pipewright/cluster/cluster_builder.h"
#include "pipewright/estimate/estimator.h"
#include "pipewright/planners/planner_parts.h"
#include "pipewright/planners/spp/spp_canonical.h"
#include "pipewright/planners/spp/spp_search.h"
#include "tests/plan/chain.h"
#include "tests/planners/spp/spp_problem.h"

namespace pipewright {
namespace {

Profile ratio_chain(std::mt19937& random, int num_layers) {
  Profile profile;
  for (int l = 0; l < num_layers; ++l) {
    add_layer(profile, Bytes(1000 * (random() % 100)));
    profile.sizes[8].push_back(
        {Bytes(8000 * (1 + random() % 10)), Bytes(0), Bytes(0)});
    const auto time = [&] {
      return Seconds(0.1 * (1 + static_cast<int>(random() % 9)));
    };
    profile.times["gpu"][8].push_back({time(), time(), time(), Seconds(0)});
  }
  return profile;
}

// Device i of the cluster is vertex names[i] of the graph of bandwidths.
Cluster named_graph(const Bandwidths& b, const std::vector<int>& names) {
  ClusterBuilder builder("graph");
  DeviceKind gpu;
  gpu.name = "gpu";
  gpu.memory = Bytes(1LL << 40);
  gpu.memory_bandwidth = BytesPerSecond(1e12);
  const int kind = builder.add_kind(gpu);
  std::vector<DeviceId> ids;
  for (std::size_t d = 0; d < names.size(); ++d)
    ids.push_back(builder.add_device({"gpu" + std::to_string(d), kind, 0}));
  const auto vertex = [&](std::size_t d) {
    return static_cast<std::size_t>(names[d]);
  };
  for (std::size_t i = 0; i < ids.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      Link link;
      link.bandwidth = BytesPerSecond(b[vertex(i)][vertex(j)]);
      link.latency = Seconds(0.001);
      builder.connect_both(ids[i], ids[j], link);
    }
  return *builder.build();
}

// Few different bandwidths, so that many cuts are equal.
Bandwidths few_bandwidths(std::mt19937& random, std::size_t n, int different) {
  const double choices[] = {1e5, 4e5, 2e6, 8e6};
  Bandwidths b(n, std::vector<double>(n, 0));
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < i; ++j)
      b[i][j] = b[j][i] = choices[random() % static_cast<unsigned>(different)];
  return b;
}

std::vector<int> any_names(std::mt19937& random, std::size_t n) {
  std::vector<int> names(n);
  std::iota(names.begin(), names.end(), 0);
  std::shuffle(names.begin(), names.end(), random);
  return names;
}

TEST_CASE("bandwidths along the device order do not depend on names") {
  std::mt19937 random(21);
  for (int round = 0; round < 2000; ++round) {
    const std::size_t n = 2 + random() % 7;
    const Bandwidths b =
        few_bandwidths(random, n, 1 + static_cast<int>(random() % 3));
    std::vector<std::vector<double>> along;
    for (int naming = 0; naming < 3; ++naming) {
      const Cluster cluster = named_graph(b, any_names(random, n));
      const std::vector<DeviceId> order = recursive_device_order(cluster);
      auto& seen = along.emplace_back();
      for (DeviceId u : order)
        for (DeviceId v : order)
          if (u != v) seen.push_back(cluster.link(u, v)->bandwidth.value());
    }
    CAPTURE(round);
    CHECK(along[0] == along[1]);
    CHECK(along[0] == along[2]);
  }
}

TEST_CASE("the step of a plan does not depend on names") {
  std::mt19937 random(22);
  for (int round = 0; round < 30; ++round) {
    const std::size_t n = 3 + random() % 5;
    const Profile profile =
        ratio_chain(random, 2 + static_cast<int>(random() % 7));
    const Bandwidths b = few_bandwidths(random, n, 3);
    std::vector<double> steps;
    for (int naming = 0; naming < 3; ++naming) {
      const Cluster cluster = named_graph(b, any_names(random, n));
      const auto planned =
          spp_planner(SppParts())->plan(spp_problem(profile, cluster, 4));
      REQUIRE(planned);
      steps.push_back(planned->estimate.step.value());
    }
    CAPTURE(round);
    CHECK(steps[0] == doctest::Approx(steps[1]).epsilon(1e-9));
    CHECK(steps[0] == doctest::Approx(steps[2]).epsilon(1e-9));
  }
}

// The least load and the least time of the order of rounds, over all orders of
// devices, all cuts and all numbers of replicas.
struct EveryPlan {
  double load = 1e300;
  double seconds = 1e300;

  void try_all(const SppCosts& costs, std::vector<PartitionStage>& so_far) {
    const PartitionProblem& p = costs.partition();
    const int layer = so_far.empty() ? 0 : so_far.back().end_layer;
    const int device = so_far.empty() ? 0 : so_far.back().end_device;
    if (layer == p.num_layers) return measure(costs, so_far);
    for (int end = layer + 1; end <= p.num_layers; ++end)
      for (int last = device + 1; last <= p.num_devices; ++last) {
        so_far.push_back({device, last, layer, end});
        try_all(costs, so_far);
        so_far.pop_back();
      }
  }

  void measure(const SppCosts& costs, const std::vector<PartitionStage>& of) {
    const std::vector<StageLoad> loads = costs.loads(of);
    const int m = costs.num_microbatches();
    double most = 0;
    for (const StageLoad& l : loads)
      most =
          std::max({most, m * (l.forward + l.backward).value() + l.tail.value(),
                    2 * m * l.channel.value()});
    load = std::min(load, most);
    seconds =
        std::min(seconds, order_seconds(loads, m, Credits::Rounds).value());
  }
};

TEST_CASE("the ratio holds against all plans of small problems") {
  std::mt19937 random(23);
  int tight = 0;
  for (int round = 0; round < 60; ++round) {
    const std::size_t n = 2 + random() % 3;
    const Profile profile =
        ratio_chain(random, 1 + static_cast<int>(random() % 4));
    const int different = round % 3 == 0 ? 1 : 4;
    const Cluster cluster =
        named_graph(few_bandwidths(random, n, different), any_names(random, n));
    const Problem problem =
        spp_problem(profile, cluster, 1 + static_cast<int>(random() % 6));
    EveryPlan every;
    std::vector<DeviceId> order;
    for (std::size_t d = 0; d < n; ++d) order.push_back(DeviceId(d));
    do {
      const auto costs = SppCosts::create(problem, order, 8);
      REQUIRE(costs);
      std::vector<PartitionStage> stages;
      every.try_all(*costs, stages);
    } while (std::next_permutation(order.begin(), order.end()));

    const auto costs =
        SppCosts::create(problem, recursive_device_order(cluster), 8);
    const SppCandidates found =
        spp_candidates(*costs, costs->partition(), Credits::Rounds, 4);
    const double spread = link_spread(cluster);
    CAPTURE(round);
    CHECK(spread >= 1);
    // The step of the proof.
    CHECK(found.least_load.value() <= spread * every.load * (1 + 1e-9));
    if (different == 1) {
      CHECK(spread == doctest::Approx(1));
      CHECK(found.least_load.value() == doctest::Approx(every.load));
      ++tight;
    }
    // The theorem, with the fastest order of rounds in place of the optimum.
    Seconds tail;
    for (const StageLoad& load : found.best[0].loads)
      tail = std::max(tail, load.tail);
    const double m = costs->num_microbatches();
    const auto k = static_cast<double>(found.best[0].stages.size());
    CHECK(found.best[0].promised.value() <=
          spread * (1 + (4 * k - 4) / m) * every.seconds * (1 + 1e-9) +
              tail.value());
    // What the plan prints.
    const auto planned = spp_planner(SppParts())->plan(problem);
    REQUIRE(planned);
    const std::string& text = planned->notes.back();
    REQUIRE(text.find("ratio: at most ") == 0);
    const double ratio = std::strtod(text.c_str() + 15, nullptr);
    CHECK(planned->estimate.step.value() <= ratio * every.seconds * 1.01);
  }
  CHECK(tight >= 15);
}

TEST_CASE("the bound holds on the final plan") {
  std::mt19937 random(24);
  for (int round = 0; round < 60; ++round) {
    const std::size_t n = 2 + random() % 5;
    const Profile profile =
        ratio_chain(random, 2 + static_cast<int>(random() % 8));
    const Cluster cluster =
        named_graph(few_bandwidths(random, n, 4), any_names(random, n));
    const auto planned =
        spp_planner(SppParts())
            ->plan(spp_problem(profile, cluster,
                               1 + static_cast<int>(random() % 8)));
    REQUIRE(planned);
    const std::string& text = planned->notes[planned->notes.size() - 2];
    REQUIRE(text.find("guarantee: at most ") == 0);
    CAPTURE(text);
    CHECK(text.find("does not count") == std::string::npos);
  }
}

TEST_CASE("links that are missing or devices that differ give no ratio") {
  const Cluster two = *load_cluster("1xV100+1xP100@10GB/s");
  CHECK(link_spread(two) > 1e300);
  CHECK(link_spread(*load_cluster("4xV100@10GB/s")) == doctest::Approx(1));
  CHECK(link_spread(*load_cluster("2x4xV100@nvlink/10GbE")) > 40);
}

TEST_CASE("a part that is switched off is not used") {
  std::mt19937 random(25);
  int slower[3] = {};
  for (int round = 0; round < 20; ++round) {
    const Profile profile = ratio_chain(random, 10);
    const Cluster cluster =
        named_graph(few_bandwidths(random, 6, 4), any_names(random, 6));
    const Problem problem = spp_problem(profile, cluster, 8);
    const double whole =
        spp_planner(SppParts())->plan(problem)->estimate.step.value();
    const SppParts parts[] = {
        {false, true, true}, {true, false, true}, {true, true, false}};
    for (int i = 0; i < 3; ++i) {
      const auto without = spp_planner(parts[i])->plan(problem);
      REQUIRE(without);
      slower[i] += without->estimate.step.value() > whole * 1.0001;
      if (i == 1)
        for (const Stage& stage : without->plan.stages)
          CHECK(stage.workers.size() == 1);
      if (i == 2) CHECK(without->plan.schedule_name == "1f1b");
    }
  }
  for (int count : slower) CHECK(count > 0);
}

}  // namespace
}  // namespace pipewright
