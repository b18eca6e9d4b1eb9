// What every planner promises, over every planner there is.

#include "tests/planners/contract.h"

#include <doctest/doctest.h>

#include <iostream>
#include <set>

#include "pipewright/cluster/cluster_builder.h"
#include "pipewright/planners/refusal.h"

namespace pipewright {
namespace {

Cluster at_half_speed(const Cluster& cluster) {
  ClusterBuilder builder(cluster.name());
  for (const DeviceKind& kind : cluster.kinds()) builder.add_kind(kind);
  for (SharedResource resource : cluster.resources()) {
    resource.bandwidth = resource.bandwidth / 2;
    builder.add_resource(resource);
  }
  for (const Device& device : cluster.devices()) builder.add_device(device);
  const int devices = cluster.num_devices();
  for (int a = 0; a < devices; ++a)
    for (int b = 0; b < devices; ++b) {
      const Link* link = cluster.link(DeviceId(a), DeviceId(b));
      if (a == b || link == nullptr) continue;
      Link slower = *link;
      slower.bandwidth = slower.bandwidth / 2;
      slower.latency = slower.latency * 2;
      builder.connect(DeviceId(a), DeviceId(b), slower);
    }
  return builder.build().value();
}

}  // namespace

TEST_CASE("every planner keeps the contract on random problems") {
  for (const auto& planner : planners()) {
    if (planner->name() == "auto") continue;  // auto_contract_test.cc
    CAPTURE(planner->name());
    const Tally tally = run_contract(*planner);
    std::cout << planner->name() << ": " << tally.problems << " problems, "
              << tally.plans << " plans, " << tally.refusals << " refusals\n";
    CHECK(tally.plans > 100);
  }
}

// Twice the time for everything: layers, and bytes over links half as fast.
TEST_CASE("a world at half the speed has the same plans at twice the time") {
  for (const auto& planner : planners()) {
    CAPTURE(planner->name());
    RandomProblems random(29);
    for (int i = 0; i < 15; ++i) {
      RandomProblem made = random.next(6);
      Problem& problem = made.problem;
      problem.method = method_of(i);
      const auto before = planner->plan(problem);
      for (auto& [kind, tables] : made.profile->times)
        for (auto& [size, rows] : tables)
          for (LayerTimes& times : rows)
            times = {times.forward * 2, times.backward_input * 2,
                     times.backward_weight * 2, times.update * 2};
      *made.cluster = at_half_speed(*made.cluster);
      problem.estimate = simulating_estimator(problem);
      const auto after = planner->plan(problem);
      REQUIRE(bool(before) == bool(after));
      if (before)
        CHECK(after->estimate.step.value() ==
              doctest::Approx(2 * before->estimate.step.value()).epsilon(1e-9));
    }
  }
}

TEST_CASE("more of anything never raises the lower bound") {
  RandomProblems random(31);
  for (int i = 0; i < 300; ++i) {
    RandomProblem made = random.next(6);
    Problem& problem = made.problem;
    problem.method = method_of(i);
    *made.cluster = load_cluster("2xV100@10MB/s").value();
    problem.memory_limit = Bytes(100'000);
    const Seconds before = lower_bound(problem);
    problem.memory_limit = Bytes(200'000);
    CHECK(lower_bound(problem) <= before);
    problem.memory_limit = Bytes(100'000);
    for (const char* better : {"2xV100@20MB/s", "3xV100@10MB/s"}) {
      *made.cluster = load_cluster(better).value();
      CHECK(lower_bound(problem) <= before);
    }
  }
}

TEST_CASE("names are unique, found again, and a near miss is put right") {
  std::set<std::string> names;
  for (const auto& planner : planners()) {
    CHECK(names.insert(planner->name()).second);
    CHECK(find_planner(planner->name()).value() == planner.get());
    CHECK(!planner->summary().empty());
    CHECK(!planner->source().empty());
  }
  const auto miss = find_planner("pipedraem");
  REQUIRE(!miss);
  CHECK(miss.error().hint == "did you mean \"pipedream\"?");
}

TEST_CASE("a planner that finds nothing that fits says what is missing") {
  RandomProblems random(3);
  for (const auto& planner : planners()) {
    CAPTURE(planner->name());
    RandomProblem made = random.next();
    made.problem.memory_limit = Bytes(1);
    made.problem.estimate = simulating_estimator(made.problem);
    const auto planned = planner->plan(made.problem);
    REQUIRE(!planned);
    CHECK(planned.error().code == ErrorCode::BadConfiguration);
  }
}

TEST_CASE("a refusal names the need and about how many devices would do") {
  RandomProblems random(33);
  const Planner& balanced = *find_planner("balanced").value();
  int refused = 0;
  for (int i = 0; i < 200; ++i) {
    RandomProblem made = random.next(8);
    Problem& problem = made.problem;
    *made.cluster = load_cluster("2xV100@100MB/s").value();
    problem.memory_limit = Bytes(random.number(60'000, 500'000));
    problem.estimate = simulating_estimator(problem);
    const auto planned = balanced.plan(problem);
    if (planned) continue;
    CHECK(planned.error().message.find("no plan of balanced fits ") == 0);
    CHECK(planned.error().message.find(" at best") != std::string::npos);
    const int devices = devices_needed(problem, true);
    if (devices <= 2) continue;
    ++refused;
    CHECK(planned.error().hint.find("about " + std::to_string(devices) +
                                    " devices with recompute") == 0);
  }
  CHECK(refused > 3);
}

}  // namespace pipewright
