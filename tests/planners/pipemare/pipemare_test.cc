// PipeMare's cuts, plans and closed forms.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "pipewright/estimate/estimator.h"
#include "pipewright/plan/lowering/lower.h"
#include "pipewright/planners/pipemare/pipemare_cuts.h"
#include "pipewright/planners/pipemare/pipemare_report.h"
#include "pipewright/planners/planner_registry.h"
#include "tests/plan/chain.h"
#include "tests/planners/bi_partition/bi_partition_chain.h"

namespace pipewright {
namespace {

struct DeepSetting {
  Profile profile;
  Cluster cluster;
  Problem problem;

  DeepSetting(Profile p, const std::string& machines, int minibatch, int stages)
      : profile(std::move(p)), cluster(*load_cluster(machines)) {
    problem.profile = &profile;
    problem.cluster = &cluster;
    problem.minibatch = minibatch;
    problem.microbatches = {1};
    problem.method = Method::PipeMare;
    problem.stages = stages;
    problem.estimate = simulating_estimator(problem);
  }
  DeepSetting(const DeepSetting&) = delete;
};

// Equal layers: 1 s forward, 2 s backward.
Profile even_chain(int layers) {
  Profile profile = chain(layers);
  profile.times["V100"] = profile.times["cpu"];
  return profile;
}

double brute_force(const std::vector<double>& loads, std::size_t first,
                   int runs) {
  if (runs == 1) {
    double sum = 0;
    for (std::size_t i = first; i < loads.size(); ++i) sum += loads[i];
    return sum;
  }
  double best = 1e9, sum = 0;
  for (std::size_t end = first + 1;
       end + static_cast<std::size_t>(runs) - 1 <= loads.size(); ++end) {
    sum += loads[end - 1];
    best = std::min(best, std::max(sum, brute_force(loads, end, runs - 1)));
  }
  return best;
}

TEST_CASE("groups are as balanced as by exhaustive search") {
  std::mt19937 random(2);
  for (int trial = 0; trial < 200; ++trial) {
    const int items = 1 + static_cast<int>(random() % 9);
    const int runs =
        1 + static_cast<int>(random() % static_cast<unsigned>(items));
    std::vector<double> loads;
    for (int i = 0; i < items; ++i)
      loads.push_back(static_cast<double>(random() % 10));
    const auto load = [&](int, int first, int end) {
      double sum = 0;
      for (int i = first; i < end; ++i)
        sum += loads[static_cast<std::size_t>(i)];
      return sum;
    };
    const std::vector<int> ends = balanced_groups(items, runs, load);
    REQUIRE(static_cast<int>(ends.size()) == runs);
    CHECK(ends.back() == items);
    double most = 0;
    int first = 0;
    for (int end : ends) {
      CHECK(end > first);
      most = std::max(most, load(0, first, end));
      first = end;
    }
    CHECK(most == doctest::Approx(brute_force(loads, 0, runs)));
  }
}

TEST_CASE("at most one layer with weights per stage") {
  Profile profile = even_chain(12);
  for (std::size_t l : {0U, 3U, 4U, 7U}) profile.layers[l].parameters.clear();
  DeepSetting setting(profile, "2xV100@100GB/s", 4, 8);
  const Planned planned = *pipemare_planner()->plan(setting.problem);
  REQUIRE(planned.plan.num_stages() == 8);
  for (const Stage& stage : planned.plan.stages)
    CHECK(std::count_if(
              stage.forward.begin(), stage.forward.end(), [&](LayerId layer) {
                return !profile.layers[layer.index()].parameters.empty();
              }) == 1);
}

TEST_CASE("a worker with many stages never waits without transfers") {
  for (int workers : {1, 2, 4})
    for (int stages : {4, 8, 16}) {
      Profile profile = even_chain(16);
      for (LayerSizes& sizes : profile.sizes[1]) sizes.output = Bytes(0);
      DeepSetting setting(profile, std::to_string(workers) + "xV100@100GB/s", 3,
                          stages);
      const Planned planned = *pipemare_planner()->plan(setting.problem);
      CHECK(planned.plan.num_workers() == workers);
      CHECK(planned.estimate.step.value() ==
            doctest::Approx(3 * 16 * 3.0 / workers).epsilon(1e-4));
      CHECK(planned.promised.value() ==
            doctest::Approx(3 * 16 * 3.0 / workers));
      CHECK(planned.lower_bound <= planned.estimate.step);
    }
}

TEST_CASE("few devices give the delays of many") {
  DeepSetting few(even_chain(30), "2xV100@100GB/s", 4, 30);
  DeepSetting many(even_chain(30), "30xV100@100GB/s", 4, 30);
  const Plan a = pipemare_planner()->plan(few.problem)->plan;
  const Plan b = pipemare_planner()->plan(many.problem)->plan;
  CHECK(a.num_workers() == 2);
  CHECK(b.num_workers() == 30);
  CHECK(lower(a, few.profile)->delays == lower(b, many.profile)->delays);
}

TEST_CASE("too little memory leads to recompute, then to an error") {
  Profile profile = even_chain(16);
  for (LayerSizes& sizes : profile.sizes[1]) sizes.keeps_private = Bytes(5000);
  DeepSetting setting(profile, "4xV100@100GB/s", 2, 0);
  const Planned roomy = *pipemare_planner()->plan(setting.problem);
  CHECK_FALSE(roomy.plan.stages[0].recompute);
  setting.problem.memory_limit =
      Bytes(*std::max_element(roomy.estimate.memory.begin(),
                              roomy.estimate.memory.end())) -
      Bytes(1);
  setting.problem.estimate = simulating_estimator(setting.problem);
  const Planned tight = *pipemare_planner()->plan(setting.problem);
  CHECK(tight.plan.stages[0].recompute);
  setting.problem.memory_limit = Bytes(100);
  setting.problem.estimate = simulating_estimator(setting.problem);
  const auto refused = pipemare_planner()->plan(setting.problem);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find("needs") != std::string::npos);
}

TEST_CASE("impossible requests are refused") {
  DeepSetting setting(even_chain(4), "2xV100@100GB/s", 2, 5);
  CHECK_FALSE(pipemare_planner()->plan(setting.problem).ok());
  setting.problem.stages = 4;
  CHECK(pipemare_planner()->plan(setting.problem).ok());
  setting.problem.method = Method::Sync;
  CHECK_FALSE(pipemare_planner()->plan(setting.problem).ok());
}

TEST_CASE("closed forms of 107 equal stages and 8 microbatches") {
  const Profile profile = even_chain(107);
  const Cluster cluster = *load_cluster("1xV100");
  const CostTable costs = *CostTable::create(profile, cluster, 1);
  std::vector<int> ends;
  for (int s = 1; s <= 107; ++s) ends.push_back(s);
  const DepthCosts depth = depth_costs(costs, ends, 8, 1, Slots::Together);
  const auto method = [&](const std::string& name) {
    for (const MethodCost& m : depth.methods)
      if (m.name == name) return m;
    return MethodCost{};
  };
  CHECK(method("pipemare").utilisation / method("sync (gpipe)").utilisation ==
        doctest::Approx(14.25));
  // Weight, gradient, momentum; the velocity is one word more.
  CHECK(method("sync (gpipe)").weights == Bytes(3 * 10 * 107));
  CHECK(method("pipemare").weights == Bytes(4 * 10 * 107));
  // In flight 2(P-i)+1, all stages but the first keep an input of 100 B.
  CHECK(method("pipemare").activations ==
        Bytes(100 * (107 * 107 - (2 * 107 - 1))));
  CHECK(std::abs(depth.segment - std::sqrt(107)) < 4);
  const double part = method("pipemare + recompute").activations /
                      method("pipemare").activations;
  CHECK(part < 2.2 / std::sqrt(107));
  CHECK(part > 1.8 / std::sqrt(107));
}

}  // namespace
}  // namespace pipewright
