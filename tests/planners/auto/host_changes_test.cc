// Changes of pipelines on groups of hosts: whatever is changed, the pipeline
// stays one.

#include "pipewright/planners/auto/host_changes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "pipewright/base/index.h"

namespace pipewright {
namespace {

constexpr int kCuts = 20, kHosts = 16;

void check_shape(const HostShape& shape) {
  int end = 0;
  std::set<int> groups;
  for (const HostStage& stage : shape.stages) {
    CHECK(stage.end > end);
    end = stage.end;
    groups.insert(stage.group);
  }
  CHECK(end == kCuts);
  CHECK(groups.size() == shape.hosts.size());
  CHECK(*groups.begin() == 0);
  CHECK(*groups.rbegin() + 1 == int(shape.hosts.size()));
  CHECK(*std::min_element(shape.hosts.begin(), shape.hosts.end()) > 0);
  CHECK(std::accumulate(shape.hosts.begin(), shape.hosts.end(), 0) == kHosts);
}

}  // namespace

TEST_CASE("a changed pipeline has all layers and all hosts") {
  HostChanges changes({8, 16, 32}, 14);
  HostShape shape{8, {{5, 0}, {12, 1}, {kCuts, 2}}, {4, 4, 8}};
  std::set<std::size_t> stages, groups;
  std::set<int> microbatches;
  int changed = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto next = changes.next(shape, i % int(shape.hosts.size()));
    if (!next) continue;
    ++changed;
    check_shape(*next);
    shape = *next;
    stages.insert(shape.stages.size());
    groups.insert(shape.hosts.size());
    microbatches.insert(shape.microbatch);
  }
  const HostShape last = shape;
  std::set<double> urgencies;
  for (int i = 0; i < 1'000; ++i) {
    shape = changes.next_order(shape);
    check_shape(shape);
    CHECK(shape.hosts == last.hosts);
    CHECK(shape.stages.size() == last.stages.size());
    for (const HostStage& stage : shape.stages)
      urgencies.insert(stage.urgency.begin(), stage.urgency.end());
  }
  CHECK(*urgencies.begin() < -0.4);
  CHECK(*urgencies.rbegin() > 0.4);
  CHECK(changed > 5'000);
  CHECK(*stages.rbegin() > 10);
  CHECK(*stages.rbegin() <= 14);
  CHECK(*groups.begin() == 1);
  CHECK(groups.size() > 4);
  CHECK(microbatches == std::set<int>{8, 16, 32});
}

}  // namespace pipewright
