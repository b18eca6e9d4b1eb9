// DAPPLE's search on the six profiles that its authors published, compared with
// all partitions under its own objective.

#include <doctest/doctest.h>

#include <cstdlib>
#include <optional>
#include <span>

#include "pipewright/base/files.h"
#include "pipewright/planners/dapple/dapple.h"
#include "pipewright/profile/formats/importer.h"
#include "tests/planners/dapple/dapple_force.h"
#include "tests/skipped.h"

namespace pipewright {
namespace {

TEST_CASE("the published profiles are planned as well as can be") {
  const char* data = std::getenv("PIPEWRIGHT_DATA");
  if (data == nullptr) {
    testing::skip("PIPEWRIGHT_DATA is not set");
    return;
  }
  const std::vector<std::pair<const char*, int>> files = {
      {"amoeba-18-pbs-8", 8}, {"amoeba-6-pbs-8-simplified", 8},
      {"bert-24-pbs-6", 6},   {"vgg-19-pbs-32", 32},
      {"vgg16", 32},          {"xlnet-24-pbs-1", 1}};
  for (const auto& [name, samples] : files) {
    ImportOptions options;
    options.samples = samples;
    options.device = "V100";
    SourceFile file;
    file.name =
        std::string(data) + "/dapple/profiling_results/" + name + ".txt";
    file.text = *read_file(file.name);
    const auto imported = import_files(std::span(&file, 1), "", options);
    REQUIRE(imported);
    const std::optional<Profile>& profile = imported->profile;
    REQUIRE(profile.has_value());
    const Cluster cluster = *load_cluster("4xV100@1GB/s");
    const CostTable costs = *CostTable::create(*profile, cluster, samples);
    for (int microbatches : {2, 16}) {
      Problem problem;
      problem.profile = &*profile;
      problem.cluster = &cluster;
      problem.minibatch = microbatches * samples;
      const double found = dapple_choices(costs, problem, 1)[0].latency;
      const double least = least_latency(costs, 4, 1e9, microbatches);
      CAPTURE(std::string(name));
      CHECK(found == doctest::Approx(least).epsilon(1e-9));
    }
  }
}

}  // namespace
}  // namespace pipewright
