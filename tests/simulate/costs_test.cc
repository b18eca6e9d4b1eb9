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
  CHECK(costs->blocking[0] == 0);
}

TEST_CASE("what an FPGA sends streams, what a GPU sends does not") {
  const auto cluster = load_cluster("1xVCU118+1xV100@1GB/s");
  REQUIRE(cluster);
  Profile profile = two_layers();
  profile.times["VCU118"] = profile.times["V100"];
  const auto costs = costs_of(two_stages(), profile, *cluster);
  REQUIRE(costs);
  CHECK(costs->transfers[0].streams);
  CHECK_FALSE(costs->transfers[1].streams);
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

const char* const kCalibrated = R"({
  "format": "pipewright/cluster", "version": 1, "name": "pair",
  "kinds": [{"name": "V100", "memory": "16GB", "overlaps_communication": 0.25,
             "base_memory": "2GB", "fragmentation": 0.1,
             "layer_overhead": 0.5, "action_overhead": 0.25,
             "gradient_overhead": 0.125, "step_overhead": "2s"}],
  "devices": [{"kind": "V100", "count": 2}],
  "within_hosts": {"bandwidth": "1GB/s", "latency": "3us",
                   "rates": [[1000, 1e8], [2000, 2e8]],
                   "collective_rates": [[250000000, 5e8], [1e9, 1e9]]}
})";

TEST_CASE("overheads, rates by size and overlap are those of the cluster") {
  const auto cluster = parse_cluster(kCalibrated, "pair");
  REQUIRE(cluster);
  Program program = two_stages();
  program.transfers[0].bytes = Bytes(1500);
  Profile profile = two_layers();
  profile.parameters = {{"weights", Bytes(100)}};
  profile.layers[1].parameters = {ParameterId(0)};
  const auto costs = costs_of(program, profile, *cluster);
  REQUIRE(costs);
  const auto& second = costs->operations[1];
  const auto compute = [&](ActionKind kind) {
    return second.compute[static_cast<int>(kind)].value();
  };
  CHECK(compute(ActionKind::Forward) == doctest::Approx(4 * 1.5 + 0.25));
  // One action, not the two halves of it.
  CHECK(compute(ActionKind::Backward) ==
        doctest::Approx(5 * 1.5 + 0.25 + 0.125));
  CHECK(compute(ActionKind::BackwardInput) == doctest::Approx(2 * 1.5 + 0.25));
  CHECK(compute(ActionKind::BackwardWeight) ==
        doctest::Approx(3 * 1.5 + 0.25 + 0.125));
  // The first layer has no weights.
  CHECK(costs->operations[0]
            .compute[static_cast<int>(ActionKind::Backward)]
            .value() == doctest::Approx(5 * 1.5 + 0.25));
  CHECK(second.step.value() == doctest::Approx(0.5 + 2));
  CHECK(costs->blocking == std::vector<double>{0.75, 0.75});
  CHECK(costs->memory[1].base == Bytes(2'000'000'000));
  CHECK(costs->memory[1].fragmentation == 0.1);
  // Both sizes take 10 us, and so does what is between them.
  CHECK(costs->transfers[0].bandwidth.value() == doctest::Approx(1.5e8));
  CHECK(costs->transfers[1].bandwidth == BytesPerSecond(1e8));
  // Two devices: pieces of half a gigabyte. From 0.5 s to 1 s over 750 MB, a
  // third of the way.
  CHECK(costs->reductions[0].bandwidth.value() ==
        doctest::Approx(0.5e9 / (0.5 + 0.5 / 3)));
}

TEST_CASE("gradients take time where a profile does not split backward") {
  const auto cluster = parse_cluster(kCalibrated, "pair");
  REQUIRE(cluster);
  Profile profile = two_layers();
  profile.parameters = {{"weights", Bytes(100)}};
  profile.layers[1].parameters = {ParameterId(0)};
  for (auto& [microbatch, times] : profile.times["V100"])
    for (LayerTimes& layer : times) layer.backward_weight = Seconds(0);
  const auto costs = costs_of(two_stages(), profile, *cluster);
  REQUIRE(costs);
  const auto compute = [&](ActionKind kind) {
    return costs->operations[1].compute[static_cast<int>(kind)].value();
  };
  CHECK(compute(ActionKind::Backward) ==
        doctest::Approx(2 * 1.5 + 0.25 + 0.125));
  CHECK(compute(ActionKind::BackwardInput) ==
        doctest::Approx(2 * 1.5 + 0.25 + 0.125));
  CHECK(compute(ActionKind::BackwardWeight) == 0);
}

TEST_CASE("a rate that does not depend on the size changes nothing") {
  const auto plain = load_cluster("2xV100@1GB/s");
  REQUIRE(plain);
  std::string text = to_text(*plain);
  for (const char* key : {"rates", "base_memory", "fragmentation", "overhead"})
    CHECK(text.find(key) == std::string::npos);
  const std::string bandwidth = "\"bandwidth\": 1e+09";
  const auto place = text.find(bandwidth);
  REQUIRE(place != std::string::npos);
  text.replace(place, bandwidth.size(),
               bandwidth + ", \"rates\": [[1, 1e9], [1e6, 1e9]]");
  const auto rated = parse_cluster(text, "rated");
  REQUIRE(rated);
  const auto before = costs_of(two_stages(), two_layers(), *plain);
  const auto after = costs_of(two_stages(), two_layers(), *rated);
  REQUIRE(before);
  REQUIRE(after);
  for (std::size_t t = 0; t < before->transfers.size(); ++t)
    CHECK(before->transfers[t].bandwidth.value() ==
          doctest::Approx(after->transfers[t].bandwidth.value()));
  CHECK(before->reductions[0].bandwidth == after->reductions[0].bandwidth);
  CHECK(before->blocking == std::vector<double>{0, 0});
}

}  // namespace
}  // namespace pipewright
