// Pipelines on whole hosts: their form over random problems, and by hand.

#include "pipewright/planners/auto/host_stages.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/planners/random_problems.h"

namespace pipewright {
namespace {

std::vector<std::size_t> devices_per_stage(const Pipeline& pipeline) {
  std::vector<std::size_t> counts;
  for (const PipelineStage& stage : pipeline.stages)
    counts.push_back(stage.devices.size());
  return counts;
}

}  // namespace

TEST_CASE("every stage has whole hosts, every layer one stage") {
  RandomProblems random(95);
  int found = 0;
  for (int i = 0; i < 60; ++i) {
    RandomProblem made = random.next();
    *made.cluster = load_cluster("6x2xV100@50MB/s/20MB/s").value();
    made.problem.minibatch = 96;
    made.problem.microbatches = {12, 24};
    const auto pipeline = host_pipeline(made.problem, 3);
    REQUIRE(pipeline);
    ++found;
    int end = 0, device = 0;
    for (const PipelineStage& stage : pipeline->pipeline.stages) {
      CHECK(stage.end > end);
      end = stage.end;
      CHECK(stage.devices.size() % 2 == 0);
      for (DeviceId id : stage.devices) CHECK(id.value == device++);
    }
    CHECK(end == made.profile->num_layers());
    CHECK(device == 12);
    CHECK(planned(pipeline->pipeline, made.problem, "test"));
  }
  CHECK(found == 60);
}

TEST_CASE("the layer with the weights gets few hosts") {
  RandomProblems random(96);
  RandomProblem made = random.next();
  *made.cluster = load_cluster("4x2xV100@50MB/s/1MB/s").value();
  keep_two_layers(*made.profile, Bytes(1'000'000));
  const Seconds zero(0), one(1);
  made.profile->sizes = {
      {1, {{Bytes(4), Bytes(0), Bytes(0)}, {Bytes(4), Bytes(0), Bytes(0)}}}};
  made.profile->times = {
      {"V100", {{1, {{one, zero, one, zero}, {zero, zero, zero, zero}}}}}};
  made.problem.minibatch = 64;
  made.problem.microbatches = {8};
  const auto light = host_pipeline(made.problem, 1);
  REQUIRE(light);
  // All hosts: 16 s to compute, 1.75 s to sum. With one host for the weights:
  // 64 * 2 s / 6 devices = 21.3 s, and nothing to sum over hosts.
  CHECK(devices_per_stage(light->pipeline) == std::vector<std::size_t>{8});
  made.profile->parameters[0].bytes = Bytes(10'000'000);
  const auto heavy = host_pipeline(made.problem, 1);
  REQUIRE(heavy);
  CHECK(devices_per_stage(heavy->pipeline) == std::vector<std::size_t>{6, 2});
}

TEST_CASE("one host, asynchronous methods: no stages on whole hosts") {
  RandomProblems random(97);
  RandomProblem made = random.next();
  *made.cluster = load_cluster("4xV100@50MB/s").value();
  made.problem.minibatch = 64;
  made.problem.microbatches = {8};
  CHECK(!host_pipeline(made.problem, 4));
  *made.cluster = load_cluster("4x2xV100@50MB/s/1MB/s").value();
  made.problem.method = Method::Stash;
  CHECK(!host_pipeline(made.problem, 4));
}

}  // namespace pipewright
