// The planner spp on the simulator: its bound compared with the simulated time
// of the same plan, small cases by hand, memory, errors.

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "pipewright/cluster/cluster_builder.h"
#include "pipewright/estimate/estimator.h"
#include "pipewright/planners/pipeline.h"
#include "pipewright/planners/planner.h"
#include "pipewright/planners/spp/spp_device_order.h"
#include "pipewright/planners/spp/spp_search.h"
#include "tests/plan/chain.h"
#include "tests/planners/spp/spp_problem.h"

namespace pipewright {
namespace {

// A chain whose times are proportional to the samples, for 8 samples.
Profile spp_chain(std::mt19937& random, int num_layers) {
  std::uniform_real_distribution<double> number(0.1, 1);
  Profile profile;
  for (int l = 0; l < num_layers; ++l) {
    add_layer(profile, Bytes(1000 * (random() % 100)));
    profile.sizes[8].push_back(
        {Bytes(8000 * (1 + random() % 10)), Bytes(0), Bytes(0)});
    profile.times["gpu"][8].push_back(
        {Seconds(number(random)), Seconds(number(random)),
         Seconds(number(random)), Seconds(0.01 * number(random))});
  }
  return profile;
}

// Every pair has its own link, as in the paper's model.
Cluster random_graph(std::mt19937& random, int devices, double bandwidth,
                     Duplex duplex = Duplex::Full) {
  ClusterBuilder builder("graph");
  DeviceKind gpu;
  gpu.name = "gpu";
  gpu.memory = Bytes(1LL << 40);
  gpu.memory_bandwidth = BytesPerSecond(1e12);
  const int kind = builder.add_kind(gpu);
  std::vector<DeviceId> ids;
  for (int d = 0; d < devices; ++d)
    ids.push_back(builder.add_device({"gpu" + std::to_string(d), kind, 0}));
  std::uniform_real_distribution<double> factor(0.1, 1);
  for (std::size_t a = 0; a < ids.size(); ++a)
    for (std::size_t b = 0; b < a; ++b) {
      Link link;
      link.bandwidth = BytesPerSecond(bandwidth * factor(random));
      link.latency = Seconds(0.01 * factor(random));
      link.duplex = duplex;
      builder.connect_both(ids[a], ids[b], link);
    }
  auto cluster = builder.build();
  REQUIRE(cluster);
  return *cluster;
}

Result<Planned> spp(const Problem& problem) {
  return (*find_planner("spp"))->plan(problem);
}

Pipeline spp_pipeline(const SppCandidate& candidate) {
  Pipeline pipeline;
  pipeline.microbatch = 8;
  pipeline.schedule = schedule_of(candidate.credits);
  for (const PartitionStage& stage : candidate.stages) {
    const auto devices = candidate.costs->devices(stage);
    pipeline.stages.push_back({candidate.costs->end_layer(stage),
                               -1,
                               {devices.begin(), devices.end()},
                               false});
  }
  return pipeline;
}

TEST_CASE("the simulated time keeps the bound, plan by plan") {
  std::mt19937 random(10);
  int plans = 0;
  for (int round = 0; round < 60; ++round) {
    const Profile profile =
        spp_chain(random, 2 + static_cast<int>(random() % 10));
    const Cluster cluster = random_graph(
        random, 2 + static_cast<int>(random() % 6), random() % 2 ? 1e5 : 1e6);
    const Problem problem =
        spp_problem(profile, cluster, 1 + static_cast<int>(random() % 12));
    const auto costs =
        SppCosts::create(problem, recursive_device_order(cluster), 8);
    REQUIRE(costs);
    for (Credits kind :
         {Credits::Rounds, Credits::Channels, Credits::Neighbour})
      for (const SppCandidate& candidate :
           spp_candidates(*costs, costs->partition(), kind, 3).best) {
        const auto timed = planned(spp_pipeline(candidate), problem, "spp");
        REQUIRE(timed);
        const double step = timed->estimate.step.value();
        ++plans;
        CAPTURE(std::string(schedule_of(kind)));
        CAPTURE(candidate.stages.size());
        // Channels of the model take turns, the simulator's links need not.
        CHECK(step <= candidate.promised.value() * 1.000001);
        CHECK(step <= candidate.bound().value() * 1.000001);
        CHECK(candidate.load.value() <= candidate.promised.value() * 1.000001);
      }
  }
  CHECK(plans >= 400);
}

TEST_CASE("plans are as reported, and deterministic") {
  std::mt19937 random(11);
  for (int round = 0; round < 40; ++round) {
    const Profile profile =
        spp_chain(random, 1 + static_cast<int>(random() % 12));
    const Cluster cluster =
        random_graph(random, 1 + static_cast<int>(random() % 7), 1e6,
                     random() % 2 ? Duplex::Full : Duplex::Half);
    const Problem problem =
        spp_problem(profile, cluster, 1 + static_cast<int>(random() % 10));
    const auto plan = spp(problem);
    REQUIRE(plan);
    const auto again = spp(problem);
    REQUIRE(again);
    CHECK(to_json(plan->plan).to_text() == to_json(again->plan).to_text());
    CHECK(plan->estimate.step.value() >= plan->lower_bound.value() * 0.999999);
    CHECK(plan->notes[plan->notes.size() - 2].find("guarantee: at most") == 0);
    CHECK(plan->notes.back().find("ratio: at most") == 0);
    CHECK(plan->estimate.fits);
  }
}

TEST_CASE("one device does everything, one after the other") {
  std::mt19937 random(12);
  const Profile profile = spp_chain(random, 6);
  const Cluster cluster = random_graph(random, 1, 1e6);
  const auto plan = spp(spp_problem(profile, cluster, 5));
  REQUIRE(plan);
  double microbatch = 0, update = 0;
  for (const LayerTimes& layer : profile.times.at("gpu").at(8)) {
    microbatch += (layer.forward + layer.backward()).value();
    update += layer.update.value();
  }
  CHECK(plan->estimate.step.value() ==
        doctest::Approx(5 * microbatch + update));
  CHECK(plan->promised.value() == doctest::Approx(5 * microbatch + update));
}

TEST_CASE("one layer on many devices is data parallelism") {
  std::mt19937 random(13);
  const Profile profile = spp_chain(random, 1);
  const Cluster cluster = random_graph(random, 4, 1e9);
  const auto plan = spp(spp_problem(profile, cluster, 5));
  REQUIRE(plan);
  REQUIRE(plan->plan.num_stages() == 1);
  CHECK(plan->plan.num_workers() == 4);
  const LayerTimes& layer = profile.times.at("gpu").at(8)[0];
  const double compute = 5 * (layer.forward + layer.backward()).value() / 4;
  CHECK(plan->estimate.step.value() >= compute);
  CHECK(plan->estimate.step.value() <= plan->promised.value() * 1.000001);
}

TEST_CASE("all times and no links twice as fast: half the step") {
  std::mt19937 random(14);
  Profile profile = spp_chain(random, 8);
  Cluster cluster = random_graph(random, 4, 1e15);
  const auto slow = spp(spp_problem(profile, cluster, 6));
  for (LayerTimes& layer : profile.times["gpu"][8])
    layer = {layer.forward / 2, layer.backward_input / 2,
             layer.backward_weight / 2, layer.update / 2};
  const auto fast = spp(spp_problem(profile, cluster, 6));
  REQUIRE(slow);
  REQUIRE(fast);
  CHECK(fast->estimate.step.value() ==
        doctest::Approx(slow->estimate.step.value() / 2).epsilon(0.05));
}

TEST_CASE("less memory: another order or partition, then an error") {
  std::mt19937 random(15);
  const Profile profile = spp_chain(random, 12);
  const Cluster cluster = random_graph(random, 4, 1e7);
  Problem problem = spp_problem(profile, cluster, 16);
  auto plan = spp(problem);
  REQUIRE(plan);
  int plans = 0;
  for (;;) {
    Bytes peak;
    for (Bytes memory : plan->estimate.memory) peak = std::max(peak, memory);
    problem.memory_limit = peak - Bytes(1);
    problem.estimate = simulating_estimator(problem);
    plan = spp(problem);
    if (!plan) break;
    ++plans;
    REQUIRE(plans < 1000);
    CHECK(plan->estimate.fits);
    for (Bytes memory : plan->estimate.memory)
      CHECK(memory <= problem.memory_limit);
  }
  CHECK(plans > 0);
  CHECK(plan.error().code == ErrorCode::BadConfiguration);
  CHECK(plan.error().message.find("no plan of spp fits") == 0);
}

TEST_CASE("asynchronous methods are refused") {
  std::mt19937 random(16);
  const Profile profile = spp_chain(random, 3);
  const Cluster cluster = random_graph(random, 2, 1e7);
  Problem problem = spp_problem(profile, cluster, 2);
  problem.method = Method::PipeMare;
  const auto plan = spp(problem);
  REQUIRE(!plan);
  CHECK(plan.error().hint == "use --method sync");
}

}  // namespace
}  // namespace pipewright
