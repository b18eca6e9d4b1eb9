// PipeDream's published profiles: bottleneck seconds and replicas as its own
// optimizer gives them.

#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "pipewright/base/files.h"
#include "pipewright/base/text.h"
#include "pipewright/planners/pipedream/pipedream.h"
#include "pipewright/profile/formats/importer.h"
#include "tests/skipped.h"

namespace pipewright {
namespace {

struct Expected {
  const char* net;
  int workers;
  double bandwidth;
  double seconds;
  const char* replicas;
};

const Expected kExpected[] = {
    {"image_classification/profiles/vgg16", 4, 1e9, 0.205521, "3-1"},
    {"image_classification/profiles/alexnet", 4, 1e9, 0.034217, "3-1"},
    {"image_classification/profiles/resnet18", 4, 1e9, 0.100004, "4"},
    {"image_classification/profiles/resnet50", 4, 1e9, 0.162881, "2-2"},
    {"image_classification/profiles/squeezenet1_0", 4, 1e9, 0.074414, "3-1"},
    {"translation/profiles/gnmt", 4, 1e9, 0.025868, "1-1-1-1"},
    {"image_classification/profiles/vgg16", 16, 1.25e9, 0.054795, "13-2-1"},
    {"image_classification/profiles/alexnet", 16, 1.25e9, 0.015099, "14-1-1"},
    {"image_classification/profiles/resnet50", 16, 1.25e9, 0.043848, "8-5-3"},
};

Profile profile_of(const std::filesystem::path& file) {
  const SourceFile source{file.string(), read_file(file).value()};
  ImportOptions options;
  options.samples = 1;  // times stay per minibatch, whatever its size
  options.device = "V100";
  return *import_files({&source, 1}, "pipedream", options).value().profile;
}

std::string replicas_of(const PipeDreamPartition& partition) {
  std::vector<std::string> counts;
  for (const PipelineStage& stage : partition.stages)
    counts.push_back(std::to_string(stage.devices.size()));
  return join(counts, "-");
}

}  // namespace

TEST_CASE("bottlenecks and replicas of PipeDream's own optimizer") {
  const char* folder = std::getenv("PIPEWRIGHT_DATA");
  if (!folder) {
    testing::skip("PIPEWRIGHT_DATA is not set");
    return;
  }
  const Cluster cluster = load_cluster("1xV100").value();
  for (const Expected& expected : kExpected) {
    CAPTURE(expected.net);
    CAPTURE(expected.workers);
    const Profile profile =
        profile_of(std::filesystem::path(folder) / "pipedream/profiler" /
                   expected.net / "graph.txt");
    const CostTable costs = CostTable::create(profile, cluster, 1).value();
    Levels flat;
    flat.inner = expected.workers;
    flat.inner_bandwidth = flat.outer_bandwidth =
        BytesPerSecond(expected.bandwidth);
    const auto start = std::chrono::steady_clock::now();
    const auto partition = pipedream_partition(costs, 0, flat).value();
    const std::chrono::duration<double, std::milli> took =
        std::chrono::steady_clock::now() - start;
    // Published to six decimals.
    CHECK(std::abs(partition.bottleneck.value() - expected.seconds) < 5.1e-7);
    CHECK(replicas_of(partition) == expected.replicas);
    std::cout << expected.net << ", " << expected.workers
              << " workers: " << partition.bottleneck.value() << " s, "
              << replicas_of(partition) << ", " << took.count() << " ms\n";
  }
}

}  // namespace pipewright
