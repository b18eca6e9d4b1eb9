// DAPPLE's placements, drawn by hand.

#include <doctest/doctest.h>

#include "pipewright/planners/dapple/dapple_hosts.h"
#include "tests/planners/random_problems.h"

namespace pipewright {
namespace {

using Groups = DappleHosts::Groups;

}  // namespace

TEST_CASE("fresh first, append first, scatter first") {
  const Cluster cluster =
      load_cluster("3x4xV100@100MB/s/10MB/s").value();  // 12 devices
  const DappleHosts hosts(cluster, 16);
  REQUIRE(hosts.num_groups() == 12);
  const Groups used = {2, 0, 0};
  CHECK(hosts.placed(used, 3, DapplePlacement::FreshFirst) == Groups{0, 3, 0});
  CHECK(hosts.placed(used, 3, DapplePlacement::AppendFirst) == Groups{2, 1, 0});
  CHECK(hosts.placed(used, 3, DapplePlacement::ScatterFirst) ==
        Groups{1, 1, 1});
  CHECK(hosts.placed(used, 9, DapplePlacement::FreshFirst) == Groups{1, 4, 4});
  CHECK(hosts.placed(used, 7, DapplePlacement::ScatterFirst) ==
        Groups{2, 3, 2});
  CHECK(hosts.rest({2, 3, 4}) == Groups{2, 1, 0});
  CHECK(hosts.devices({2, 1, 0}, {1, 2, 0}) ==
        std::vector<DeviceId>{DeviceId(2), DeviceId(5), DeviceId(6)});
  CHECK(hosts.inside({0, 3, 0}) == 100e6);
  CHECK(hosts.inside({1, 3, 0}) == 10e6);
  CHECK(hosts.between({0, 3, 0}, {0, 1, 0}) == 100e6);
  CHECK(hosts.between({0, 3, 0}, {1, 1, 0}) == 10e6);
}

TEST_CASE("groups never span hosts; where they would, there is one host") {
  const Cluster eights = load_cluster("8x8xV100").value();
  CHECK(DappleHosts(eights, 16).group_size() == 4);
  CHECK(DappleHosts(eights, 16).none().size() == 8);
  const Cluster threes = load_cluster("8x3xV100").value();
  CHECK(DappleHosts(threes, 16).group_size() == 3);
  const Cluster many = load_cluster("32x1xV100").value();
  CHECK(DappleHosts(many, 16).none().size() == 1);
  CHECK(DappleHosts(many, 16).group_size() == 2);
}

// One layer whose weights are expensive to sum between hosts and a light one.
TEST_CASE("a heavy stage is kept inside a host") {
  RandomProblems random(91);
  RandomProblem made = random.next();
  Profile& profile = *made.profile;
  keep_two_layers(profile, Bytes(50'000'000));
  const Seconds zero(0), unit(0.01);
  profile.sizes = {
      {8,
       {{Bytes(1000), Bytes(0), Bytes(0)}, {Bytes(1000), Bytes(0), Bytes(0)}}}};
  profile.times = {
      {"V100", {{8, {{unit, zero, unit, zero}, {unit, zero, unit, zero}}}}}};
  *made.cluster = load_cluster("2x2xV100@1GB/s/10MB/s").value();
  made.problem.microbatches = {8};
  made.problem.minibatch = 64;
  made.problem.memory_limit = Bytes(0);
  set_estimators(made.problem);
  const auto planned = find_planner("dapple").value()->plan(made.problem);
  REQUIRE(planned);
  REQUIRE(planned->plan.stages.size() == 2);
  const auto& last = planned->plan.stages[1].workers;
  const auto host = [&](WorkerId worker) {
    return made.cluster
        ->devices()[planned->plan.devices[worker.index()].index()]
        .host;
  };
  for (WorkerId worker : last) CHECK(host(worker) == host(last.front()));
}

}  // namespace pipewright
