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
  for (const bool of_all : {false, true}) {
    HostChanges changes({8, 16, 32}, 14);
    HostShape shape{8, {{5, 0}, {12, 1}, {kCuts, 2}}, {4, 4, 8}};
    std::set<std::size_t> stages, groups;
    std::set<int> microbatches;
    int changed = 0, urgent = 0;
    for (int i = 0; i < 20'000; ++i) {
      const int last = i % int(shape.hosts.size());
      const auto next =
          of_all ? changes.next_of_all(shape, last) : changes.next(shape, last);
      if (!next) continue;
      ++changed;
      check_shape(*next);
      shape = *next;
      stages.insert(shape.stages.size());
      groups.insert(shape.hosts.size());
      microbatches.insert(shape.microbatch);
      urgent += shape.stages[0].urgency[0] != 0;
    }
    CHECK(changed > 5'000);
    CHECK(*stages.rbegin() > 10);
    CHECK(*stages.rbegin() <= 14);
    CHECK(*groups.begin() == 1);
    CHECK(groups.size() > 4);
    CHECK(microbatches == std::set<int>{8, 16, 32});
    CHECK((urgent > 0) == of_all);
  }
}

TEST_CASE("changes of any group swap stages and move cuts by several") {
  HostChanges changes({8}, 2);
  const HostShape shape{8, {{10, 0}, {kCuts, 1}}, {8, 8}};
  int swapped = 0;
  std::set<int> ends;
  for (int i = 0; i < 2'000; ++i) {
    const auto next = changes.next_of_all(shape, 0);
    if (!next || next->hosts != shape.hosts || next->stages.size() != 2)
      continue;
    const bool is_swapped = next->stages[0].group == 1;
    swapped += is_swapped;
    if (!is_swapped) ends.insert(next->stages[0].end);
  }
  CHECK(swapped > 50);
  CHECK(ends == std::set<int>{7, 8, 9, 10, 11, 12, 13});
}

TEST_CASE("a changed order keeps the stages") {
  HostChanges changes({8, 16, 32}, 14);
  HostShape shape{8, {{5, 0}, {12, 1}, {kCuts, 2}}, {4, 4, 8}};
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
}

}  // namespace pipewright
