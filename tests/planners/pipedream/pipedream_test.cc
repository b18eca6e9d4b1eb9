// PipeDream's partition compared with exhaustive search, by its cost model.

#include "pipewright/planners/pipedream/pipedream.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "pipewright/base/files.h"
#include "pipewright/planners/cut_positions.h"
#include "pipewright/profile/analytic.h"
#include "tests/planners/random_problems.h"

namespace pipewright {
namespace {

struct FlatModel {
  const CostTable& costs;
  int kind;
  double bandwidth;

  double stage(int first, int end, int m) const {
    const auto bytes =
        static_cast<double>(costs.parameters(first, end).value());
    return (costs.compute(kind, first, end).value() +
            4.0 * (m - 1) * bytes / (bandwidth * m)) /
           m;
  }
  double transfer(int first, int m) const {
    if (first == 0) return 0;
    return 2.0 * static_cast<double>(costs.crossing(first).value()) /
           bandwidth / m;
  }
  // The best of every way to use all m devices for layers from `first` on.
  double best(int first, int m) const {
    const int layers = costs.num_layers();
    double least = std::max(stage(first, layers, m), transfer(first, m));
    for (int end = first + 1; end < layers; ++end)
      for (int r = 1; r < m; ++r)
        least =
            std::min(least, std::max({stage(first, end, r), transfer(first, r),
                                      best(end, m - r)}));
    return least;
  }
};

double slowest_stage(const std::vector<PipelineStage>& stages,
                     const FlatModel& model) {
  double most = 0;
  int first = 0;
  for (const PipelineStage& stage : stages) {
    const int m = static_cast<int>(stage.devices.size());
    most = std::max(
        {most, model.stage(first, stage.end, m), model.transfer(first, m)});
    first = stage.end;
  }
  return most;
}

}  // namespace

TEST_CASE("a flat network: equals exhaustive search") {
  RandomProblems random(23);
  for (int i = 0; i < 300; ++i) {
    const RandomProblem made = random.next(7);
    const auto costs =
        CostTable::create(*made.profile, *made.cluster, 4).value();
    Levels flat;
    flat.inner = random.number(1, 5);
    flat.inner_bandwidth = flat.outer_bandwidth =
        BytesPerSecond(random.number(1, 100) * 1e6);
    const FlatModel model{costs, 0, flat.inner_bandwidth.value()};
    const auto partition = pipedream_partition(costs, 0, flat).value();
    const double best = model.best(0, flat.inner);
    CHECK(partition.bottleneck.value() == doctest::Approx(best).epsilon(1e-12));
    CHECK(slowest_stage(partition.stages, model) ==
          doctest::Approx(best).epsilon(1e-12));
    CHECK(partition.stages.back().end == costs.num_layers());
  }
}

TEST_CASE("two levels use every device once, and one group is a flat network") {
  RandomProblems random(29);
  for (int i = 0; i < 100; ++i) {
    const RandomProblem made = random.next(7);
    const auto costs =
        CostTable::create(*made.profile, *made.cluster, 4).value();
    Levels levels;
    levels.inner = random.number(1, 4);
    levels.outer = random.number(2, 3);
    levels.inner_bandwidth = BytesPerSecond(5e7);
    levels.outer_bandwidth = BytesPerSecond(1e7);
    const auto partition = pipedream_partition(costs, 0, levels).value();
    std::vector<int> used;
    for (const PipelineStage& stage : partition.stages)
      for (DeviceId device : stage.devices) used.push_back(device.value);
    std::sort(used.begin(), used.end());
    REQUIRE(used.size() ==
            static_cast<std::size_t>(levels.inner * levels.outer));
    for (std::size_t d = 0; d < used.size(); ++d)
      CHECK(used[d] == static_cast<int>(d));
    CHECK(partition.stages.back().end == costs.num_layers());
  }
}

// Two hosts of eight devices.
Levels two_hosts() {
  Levels levels;
  levels.inner = 8;
  levels.outer = 2;
  levels.inner_bandwidth = BytesPerSecond(1e11);
  levels.outer_bandwidth = BytesPerSecond(1e10);
  return levels;
}

CostTable costs_of_gpt(int blocks) {
  const Cluster cluster = load_cluster("2x8xV100").value();
  const Profile profile =
      analytic_profile(
          load_model("gpt:layers=" + std::to_string(blocks)).value(),
          cluster.kinds(), std::array{1})
          .value();
  return CostTable::create(profile, cluster, 1).value();
}

TEST_CASE("where layers are too many, cuts are between groups of them") {
  const CostTable costs = costs_of_gpt(48);
  const auto partition = pipedream_partition(costs, 0, two_hosts()).value();
  CHECK(partition.layer_groups > 100);
  CHECK(partition.layer_groups < costs.num_layers());
  CHECK(partition.stages.back().end == costs.num_layers());
  std::size_t devices = 0;
  int end = 0;
  for (const PipelineStage& stage : partition.stages) {
    CHECK(stage.end > end);
    end = stage.end;
    devices += stage.devices.size();
  }
  CHECK(devices == 16);
  const double work = costs.compute(0, 0, costs.num_layers()).value();
  CHECK(partition.bottleneck.value() >= work / 16);
  CHECK(partition.bottleneck.value() < 1.2 * work / 16);
}

TEST_CASE("groups of layers are cut nearly as well as layers") {
  const CostTable costs = costs_of_gpt(24);
  const auto whole = pipedream_partition(costs, 0, two_hosts()).value();
  CHECK(whole.layer_groups == 0);
  const auto groups = costs.grouped(cut_positions(costs, 0, 100));
  const auto grouped = pipedream_partition(groups, 0, two_hosts()).value();
  CHECK(grouped.bottleneck >= whole.bottleneck);
  CHECK(grouped.bottleneck < whole.bottleneck * 1.1);
}

TEST_CASE("more devices never make the bottleneck slower by more than syncs") {
  // Without parameters there is nothing to sum: it never gets slower.
  RandomProblems random(31);
  for (int i = 0; i < 100; ++i) {
    RandomProblem made = random.next(7);
    for (ProfileParameter& parameter : made.profile->parameters)
      parameter.bytes = Bytes(0);
    const auto costs =
        CostTable::create(*made.profile, *made.cluster, 4).value();
    Levels flat;
    flat.inner_bandwidth = flat.outer_bandwidth = BytesPerSecond(1e7);
    double before = 1e300;
    for (flat.inner = 1; flat.inner <= 6; ++flat.inner) {
      const double now =
          pipedream_partition(costs, 0, flat).value().bottleneck.value();
      CHECK(now <= before);
      before = now;
    }
  }
}

}  // namespace pipewright
