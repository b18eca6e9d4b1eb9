// Costs from a profile and a cluster.

#include "pipewright/simulate/costs.h"

#include <doctest/doctest.h>

#include "tests/simulate/chain_programs.h"

namespace pipewright {
namespace {

using namespace test;

Profile two_layers() {
  Profile profile;
  for (int l = 0; l < 2; ++l) {
    ProfileLayer layer;
    layer.name = "layer" + std::to_string(l);
    if (l > 0) {
      layer.inputs = {LayerId(0)};
      layer.keeps_input = {true};
    }
    profile.layers.push_back(layer);
    for (int microbatch : {2, 4}) {
      profile.sizes[microbatch].push_back({Bytes(100), Bytes(0), Bytes(0)});
      profile.times["V100"][microbatch].push_back(
          {Seconds(microbatch + l), Seconds(2), Seconds(3), Seconds(0.5)});
    }
  }
  return profile;
}

Program two_stages() {
  Chain chain = gpipe(2, 2);
  chain.bytes = Bytes(1000);
  Program program = chain_program(chain);
  for (int s = 0; s < 2; ++s) {
    Operation& operation = program.operations[static_cast<std::size_t>(s)];
    operation.forward = operation.backward = {LayerId(s)};
    operation.end_sample = 3;
  }
  Reduction reduction;
  reduction.workers = {WorkerId(0), WorkerId(1)};
  reduction.bytes = Bytes(1'000'000'000);
  program.reductions.push_back(reduction);
  return program;
}

TEST_CASE("operations, links and rings take what profile and cluster say") {
  const auto cluster = load_cluster("2xV100@1GB/s");
  REQUIRE(cluster);
  const auto costs = costs_of(two_stages(), two_layers(), *cluster);
  REQUIRE(costs);
  // Three samples lie between the profiled two and four.
  const auto& second = costs->operations[1];
  CHECK(second.compute[static_cast<int>(ActionKind::Forward)].value() ==
        doctest::Approx(4));
  CHECK(second.compute[static_cast<int>(ActionKind::Backward)] == Seconds(5));
  CHECK(second.compute[static_cast<int>(ActionKind::BackwardInput)] ==
        Seconds(2));
  CHECK(second.compute[static_cast<int>(ActionKind::BackwardWeight)] ==
        Seconds(3));
  CHECK(second.step == Seconds(0.5));
  const Link& link = *cluster->link(DeviceId(0), DeviceId(1));
  CHECK(costs->transfers[0].bandwidth == link.bandwidth);
  CHECK(costs->transfers[0].latency == link.latency);
  // Two of two halves over each link.
  CHECK(costs->reductions[0].bytes == 1e9);
  CHECK(costs->reductions[0].bandwidth == link.bandwidth);
  CHECK(costs->reductions[0].latency == link.latency * 2);
  CHECK(!costs->blocking[0]);
}

TEST_CASE("a worker whose device does not exist, and an unknown kind") {
  const auto one = load_cluster("1xV100");
  REQUIRE(one);
  const auto costs = costs_of(two_stages(), two_layers(), *one);
  REQUIRE(!costs);
  CHECK(costs.error().code == ErrorCode::BadConfiguration);
  CHECK(costs.error().message.find("worker 1") != std::string::npos);
  Profile other = two_layers();
  other.times["P100"] = other.times["V100"];
  other.times.erase("V100");
  const auto two = load_cluster("2xV100@1GB/s");
  REQUIRE(two);
  CHECK(!costs_of(two_stages(), other, *two));
}

TEST_CASE("a worker that fits on chip computes at that rate") {
  const auto cluster = load_cluster("2xVCU118");
  REQUIRE(cluster);
  Profile profile = two_layers();
  profile.times["VCU118"] = profile.times["V100"];
  for (const auto& [microbatch, rows] : profile.times["V100"])
    for (const LayerTimes& slow : rows)
      profile.times["VCU118/on-chip"][microbatch].push_back(
          {slow.forward / 2.0, slow.backward_input / 2.0,
           slow.backward_weight / 2.0, slow.update});
  Program program = two_stages();
  program.operations[0].gradients = Bytes(43'000'000);
  program.operations[1].gradients = Bytes(44'000'000);
  const auto costs = costs_of(program, profile, *cluster);
  REQUIRE(costs);
  const auto backward = [&](std::size_t operation) {
    return costs->operations[operation]
        .compute[static_cast<int>(ActionKind::Backward)];
  };
  CHECK(backward(0) == Seconds(2.5));
  CHECK(backward(1) == Seconds(5));
}

}  // namespace
}  // namespace pipewright
