// The exact planner on profiles, and placement over any sets.

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "pipewright/estimate/estimator.h"
#include "pipewright/model/model.h"
#include "pipewright/planners/exact/exact_any_set.h"
#include "pipewright/planners/exact/exact_profile.h"
#include "pipewright/profile/analytic.h"

namespace pipewright {
namespace {

struct ExactSetting {
  Profile profile;
  Cluster cluster;

  Problem problem(Method method = Method::Sync) const {
    Problem made;
    made.profile = &profile;
    made.cluster = &cluster;
    made.minibatch = 32;
    made.microbatches = {4};
    made.method = method;
    made.estimate = simulating_estimator(profile, cluster);
    return made;
  }
};

ExactSetting exact_setting(const std::string& name,
                           const std::string& devices) {
  auto model = load_model(name);
  REQUIRE(model);
  auto cluster = load_cluster(devices);
  REQUIRE(cluster);
  const std::vector<int> microbatches{4};
  auto profile = analytic_profile(*model, cluster->kinds(), microbatches);
  REQUIRE(profile);
  return {*profile, *cluster};
}

const Planner& exact() { return **find_planner("exact"); }

PlacementInstance random_exact_graph(std::mt19937& random) {
  const auto below = [&](int n) {
    return static_cast<int>(random() % static_cast<unsigned>(n));
  };
  PlacementInstance instance;
  instance.max_accelerators = 2 + below(2);
  instance.max_cpus = below(2);
  instance.max_size = 40;
  for (int v = 0; v < 10; ++v) {
    PlacementNode node;
    node.id = 100 + v;
    node.accelerator_latency = 1 + below(9);
    node.cpu_latency = 5 + below(40);
    node.size = below(5);
    node.cost = below(5);
    node.color_class = below(3) == 0 ? below(4) : -1;
    instance.nodes.push_back(node);
    for (int u = 0; u < v; ++u)
      if (below(4) == 0) instance.edges.push_back({u, v, -1});
  }
  std::sort(instance.edges.begin(), instance.edges.end(), [](auto a, auto b) {
    return std::pair(a.source, a.dest) < std::pair(b.source, b.dest);
  });
  return instance;
}

}  // namespace

TEST_CASE("exact planner: plans whose bottleneck is the best chain's") {
  for (const char* name : {"vgg16", "resnet18", "gnmt:layers=4"})
    for (Method method : {Method::Sync, Method::Stash}) {
      CAPTURE(name);
      const ExactSetting made = exact_setting(name, "4xV100");
      const Problem problem = made.problem(method);
      const auto planned = exact().plan(problem);
      if (!planned) FAIL(planned.error().to_text());
      const auto chain = chain_problem(problem, 4);
      REQUIRE(chain);
      const auto best = best_chain(*chain);
      REQUIRE(best);
      CHECK(planned->bottleneck.value() == doctest::Approx(best->load));
      CHECK(planned->plan.num_stages() <= 4);
      CHECK(planned->estimate.fits);
      CHECK(planned->lower_bound <= planned->estimate.step);
      CHECK(check_plan(planned->plan, made.profile));
    }
}

TEST_CASE("exact planner: keeps to a memory limit, or says what is needed") {
  const ExactSetting made = exact_setting("vgg16", "4xV100");
  Problem problem = made.problem();
  const auto free = exact().plan(problem);
  REQUIRE(free);
  const Bytes peak = *std::max_element(free->estimate.memory.begin(),
                                       free->estimate.memory.end());
  problem.memory_limit = Bytes(peak.value() * 9 / 10);
  problem.estimate = simulating_estimator(problem);
  const auto tight = exact().plan(problem);
  if (tight) {
    CHECK(tight->bottleneck >= free->bottleneck);
    for (Bytes memory : tight->estimate.memory)
      CHECK(memory <= problem.memory_limit);
  }
  problem.memory_limit = Bytes(1'000'000);
  problem.estimate = simulating_estimator(problem);
  const auto refused = exact().plan(problem);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::BadConfiguration);
  CHECK(refused.error().message.find("1 MB") != std::string::npos);
}

TEST_CASE("any set: between its bound and the best chain, colours together") {
  std::mt19937 random(6);
  int better = 0;
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const PlacementInstance instance = random_exact_graph(random);
    const GroupedInstance groups = grouped(instance);
    const auto chain = best_chain(groups.problem);
    if (!chain) continue;
    const auto start = split_of(instance, groups, chain->parts);
    const auto any = any_set(instance, start);
    REQUIRE(any);
    CHECK(any->load <= chain->load * (1 + 1e-9));
    CHECK(any->load >= any->lower_bound * (1 - 1e-9));
    better += any->load < chain->load * (1 - 1e-9);
    const auto expected = loads(instance, any->split);
    REQUIRE(expected);
    CHECK(any->load == doctest::Approx(*std::max_element(expected->begin(),
                                                         expected->end())));
    for (const auto* parts : {&any->split.accelerators, &any->split.cpus})
      for (const PlacementPart& part : *parts)
        for (const PlacementNode& node : instance.nodes)
          for (const PlacementNode& other : instance.nodes)
            if (node.color_class >= 0 && node.color_class == other.color_class)
              CHECK(std::count(part.node_ids.begin(), part.node_ids.end(),
                               node.id) == std::count(part.node_ids.begin(),
                                                      part.node_ids.end(),
                                                      other.id));
  }
  CHECK(better > 0);
}

}  // namespace pipewright
