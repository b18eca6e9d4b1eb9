// What BaPipe's experiments show, in quality: which networks gain by a
// pipeline, what memory it saves, and what FPGAs gain. Measured V100 profiles
// from examples/, estimated ones for FPGAs.

#include <doctest/doctest.h>

#include <algorithm>

#include "pipewright/base/files.h"
#include "pipewright/estimate/estimator.h"
#include "pipewright/model/model.h"
#include "pipewright/planners/bapipe/bapipe_exploration.h"
#include "pipewright/planners/bapipe/bapipe_partition.h"
#include "pipewright/planners/pipeline.h"
#include "pipewright/profile/analytic.h"

namespace pipewright {
namespace {

Profile example(const std::string& name) {
  const std::string file =
      std::string(PIPEWRIGHT_SOURCE_DIR) + "/examples/profiles/" + name;
  const auto text = read_file(file);
  REQUIRE(text);
  auto profile = parse_profile(*text, file);
  REQUIRE(profile);
  return *std::move(profile);
}

Cluster target_cluster(const std::string& text) {
  auto cluster = load_cluster(text);
  REQUIRE(cluster);
  return *std::move(cluster);
}

Problem target_problem(const Profile& profile, const Cluster& cluster,
                       int minibatch, std::vector<int> microbatches) {
  Problem problem;
  problem.profile = &profile;
  problem.cluster = &cluster;
  problem.minibatch = minibatch;
  problem.microbatches = std::move(microbatches);
  problem.estimate = simulating_estimator(profile, cluster);
  return problem;
}

Planned explored(const Problem& problem) {
  auto result = (*find_planner("bapipe"))->plan(problem);
  REQUIRE(result);
  return *std::move(result);
}

Planned data_parallel(const Problem& problem) {
  Pipeline pipeline;
  pipeline.microbatch = problem.minibatch;
  pipeline.stages.push_back({problem.profile->num_layers(), -1, {}, false});
  for (int d = 0; d < problem.cluster->num_devices(); ++d)
    pipeline.stages[0].devices.push_back(DeviceId(d));
  auto result = planned(pipeline, problem, "data-parallel");
  REQUIRE(result);
  return *std::move(result);
}

Bytes largest(const std::vector<Bytes>& memory) {
  return *std::max_element(memory.begin(), memory.end());
}

const Cluster& four_hosts() {
  static const Cluster kCluster = target_cluster("4x1xV100/10GbE");
  return kCluster;
}

TEST_CASE("VGG-16 and GNMT gain: large weights, small features") {
  for (const char* name : {"vgg16-v100.json", "gnmt-v100.json"}) {
    const Profile profile = example(name);
    const Problem problem =
        target_problem(profile, four_hosts(), 128, {4, 8, 16, 128});
    const Planned pipeline = explored(problem);
    CHECK(pipeline.plan.num_stages() == 4);
    CHECK(data_parallel(problem).estimate.step / pipeline.estimate.step > 2);
  }
}

TEST_CASE("ResNet-50 over PCIe falls back to data parallelism") {
  const Profile profile = example("resnet50-v100.json");
  const Cluster cluster = target_cluster("4xV100@pcie3");
  const Problem problem =
      target_problem(profile, cluster, 128, {4, 8, 16, 128});
  const Planned result = explored(problem);
  CHECK(result.plan.num_stages() == 1);
  CHECK(result.estimate.step <= data_parallel(problem).estimate.step);
}

TEST_CASE("memory: less than GPipe keeps, less than weight versions take") {
  const Profile profile = example("vgg16-v100.json");
  Problem problem = target_problem(profile, four_hosts(), 128, {4});
  const Planned own = explored(problem);
  Pipeline same;
  same.microbatch = 4;
  int end = 0;
  for (std::size_t s = 0; s < own.plan.stages.size(); ++s) {
    end += static_cast<int>(own.plan.stages[s].forward.size());
    same.stages.push_back({end, -1, {own.plan.devices[s]}, false});
  }
  same.schedule = "gpipe";
  const auto gpipe = planned(same, problem, "gpipe");
  REQUIRE(gpipe);
  CHECK(largest(own.estimate.memory) < largest(gpipe->estimate.memory));
  same.schedule = "async-1f1b";
  problem.method = Method::Stash;
  problem.minibatch = 4;  // a version per microbatch, as in PipeDream
  const auto stash = planned(same, problem, "pipedream");
  REQUIRE(stash);
  Bytes own_sum, stash_sum;
  for (Bytes bytes : own.estimate.memory) own_sum += bytes;
  for (Bytes bytes : stash->estimate.memory) stash_sum += bytes;
  CHECK(own_sum < stash_sum);
}

struct Fpgas {
  Profile profile;
  Cluster cluster;
};
Fpgas fpgas(const std::string& model, const std::string& cluster_text) {
  const auto made = load_model(model);
  REQUIRE(made);
  const Cluster cluster = target_cluster(cluster_text);
  const int sizes[] = {1, 2, 8};
  auto profile = analytic_profile(*made, cluster.kinds(), sizes);
  REQUIRE(profile);
  return {*std::move(profile), cluster};
}

TEST_CASE("FPGAs: splitting layers makes the pipeline faster") {
  for (const char* text : {"4xVCU118", "4xVCU129", "2xVCU118+2xVCU129"}) {
    const Fpgas on = fpgas("vgg16", text);
    Problem problem = target_problem(on.profile, on.cluster, 32, {1});
    set_estimators(problem);
    problem.may_split_layers = true;
    BaPipeExploration exploration(problem, "bapipe");
    REQUIRE(exploration.explore(1));
    Seconds parts, layers;
    for (const BaPipeCandidate& candidate : exploration.candidates()) {
      if (candidate.schedule != "1F1B-AS" || !candidate.planned) continue;
      auto& step = candidate.partition == "intra-layer" ? parts : layers;
      step = candidate.planned->estimate.step;
    }
    INFO(text, ": ", parts.value(), " of ", layers.value());
    CHECK(parts > Seconds(0));
    CHECK(parts < layers);
  }
}

TEST_CASE("mixed FPGAs: equal shares waste the faster boards") {
  const Fpgas on = fpgas("vgg16", "2xVCU118+2xVCU129");
  const Fpgas equal = fpgas("vgg16", "4xVCU118");
  const Problem problem = target_problem(on.profile, on.cluster, 32, {1});
  const Problem as_if = target_problem(equal.profile, equal.cluster, 32, {1});
  const auto blocks = BlockCosts::create(equal.profile, equal.cluster, 1);
  REQUIRE(blocks);
  const auto ends =
      balanced_ends(StageCosts(*blocks, as_if, BaPipeSchedule::OneAs,
                               device_orders(equal.cluster, 4)[0]));
  REQUIRE(ends);
  Pipeline pipeline;
  for (int s = 0; s < 4; ++s)
    pipeline.stages.push_back(
        {(*ends)[static_cast<std::size_t>(s)], -1, {DeviceId(s)}, false});
  const auto result = planned(pipeline, problem, "equal shares");
  REQUIRE(result);
  CHECK(explored(problem).estimate.step < result->estimate.step);
}

}  // namespace
}  // namespace pipewright
