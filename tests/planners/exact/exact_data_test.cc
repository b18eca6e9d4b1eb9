// The optima of published placement instances, and their splits.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "pipewright/base/files.h"
#include "pipewright/planners/exact/exact_placement.h"
#include "tests/skipped.h"

namespace pipewright {
namespace {

namespace fs = std::filesystem;

struct Case {
  const char* file;
  double optimum, within;
};

PlacementInstance instance_of(const fs::path& path) {
  auto text = read_file(path);
  REQUIRE(text);
  auto instance = parse_placement(*text, path.string());
  REQUIRE(instance);
  return *instance;
}

// Checks the load, also by the instance's own rules for the split.
void check_case(const fs::path& folder, const Case& expected) {
  CAPTURE(expected.file);
  const PlacementInstance instance = instance_of(folder / expected.file);
  const GroupedInstance groups = grouped(instance);
  const auto solution = best_chain(groups.problem);
  REQUIRE(solution);
  CHECK(solution->proven);
  CHECK(std::abs(solution->load - expected.optimum) < expected.within);
  const PlacementSplit split = split_of(instance, groups, solution->parts);
  const auto loads_of = loads(instance, split);
  REQUIRE(loads_of);
  CHECK(*std::max_element(loads_of->begin(), loads_of->end()) ==
        doctest::Approx(solution->load).epsilon(1e-12));
  CHECK(split.accelerators.size() <=
        static_cast<std::size_t>(instance.max_accelerators));
  CHECK(split.cpus.size() <= static_cast<std::size_t>(instance.max_cpus));
}

}  // namespace

TEST_CASE("exact: the optima of published instances") {
  const char* data = std::getenv("PIPEWRIGHT_DATA");
  if (!data) {
    testing::skip("PIPEWRIGHT_DATA is not set");
    return;
  }
  const fs::path folder =
      fs::path(data) / "dnn-partitioning" / "throughput-inputs";
  const Case cases[] = {
      {"LayerGraphs/bert24_inference.json", 17.78990625, 1e-9},
      {"LayerGraphs/bert24_training.json", 41.7458125, 1e-9},
      {"LayerGraphs/resnet50_inference.json", 33.774666, 1e-6},
      {"LayerGraphs/resnet50_training.json", 78.631813, 1e-6},
      // Not published. A slower search that tried parts full or not, and kept
      // loads instead of comparing with a target, came to the same.
      {"OperatorGraphs/bert_l-3_inference.json", 27.9185676799, 1e-9},
      {"OperatorGraphs/bert_l-3_training.json", 65.3031491221, 1e-9},
  };
  for (const Case& expected : cases) check_case(folder, expected);
}

}  // namespace pipewright
