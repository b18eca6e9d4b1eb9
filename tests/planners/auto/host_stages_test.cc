// Pipelines on whole hosts: their form over random problems, and by hand.

#include "pipewright/planners/auto/host_stages.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "pipewright/base/index.h"
#include "pipewright/planners/bounds/bounds.h"
#include "tests/planners/random_problems.h"

namespace pipewright {
namespace {

std::vector<std::size_t> devices_per_stage(const Plan& plan) {
  std::vector<std::size_t> counts;
  for (const Stage& stage : plan.stages) counts.push_back(stage.workers.size());
  return counts;
}

bool has_shared_hosts(const Plan& plan) {
  std::size_t held = 0;
  for (const Stage& stage : plan.stages) held += stage.workers.size();
  return held > plan.devices.size();
}

// Whole hosts of two devices, each with the stages of one group.
void check_hosts(const Plan& plan) {
  std::map<WorkerId, std::vector<WorkerId>> groups;  // by their first worker
  for (const Stage& stage : plan.stages) {
    CHECK(stage.workers.size() % 2 == 0);
    const auto& known =
        groups.try_emplace(stage.workers.front(), stage.workers).first->second;
    CHECK(known == stage.workers);
  }
  int device = 0;
  for (const auto& [first, workers] : groups)
    for (WorkerId worker : workers)
      CHECK(plan.devices[worker.index()].value == device++);
  CHECK(device == 12);
}

}  // namespace

TEST_CASE("every stage has whole hosts, every layer one stage") {
  RandomProblems random(95);
  int faster = 0, reordered = 0, shared = 0, near = 0;
  for (int i = 0; i < 60; ++i) {
    CAPTURE(i);
    RandomProblem made = random.next();
    *made.cluster = load_cluster("6x2xV100@50MB/s/20MB/s").value();
    made.problem.minibatch = 96;
    made.problem.memory_limit = Bytes(0);
    made.problem.microbatches = {12, 24};
    const auto search = HostSearch::create(made.problem, 1, Replication::Split);
    REQUIRE(search);
    const Seconds first = search->predicted();
    search->improve(4000);
    CHECK(search->predicted() <= first);
    faster += search->predicted() < first;
    const Seconds before = search->predicted();
    search->improve_order(1000);
    CHECK(search->predicted() <= before);
    reordered += search->predicted() < before;
    // Whoever makes a plan checks it (check_plan), layers included.
    const auto planned = search->plan();
    REQUIRE(planned);
    CHECK(lower_bound(made.problem) <= planned->estimate.step);
    check_hosts(planned->plan);
    shared += has_shared_hosts(planned->plan);
    const double ratio = planned->estimate.step / search->predicted();
    near += ratio > 0.9 && ratio < 1.1;
  }
  CHECK(faster > 20);
  CHECK(reordered > 20);
  CHECK(shared > 10);
  CHECK(near > 30);
}

TEST_CASE("hosts that take turns have whole microbatches") {
  RandomProblems random(98);
  int near = 0, uneven = 0, faster = 0;
  for (int i = 0; i < 60; ++i) {
    CAPTURE(i);
    RandomProblem made = random.next();
    *made.cluster = load_cluster("6x2xV100@50MB/s/20MB/s").value();
    made.problem.minibatch = 128;
    made.problem.memory_limit = Bytes(0);
    made.problem.microbatches = {1, 7};
    const auto search =
        HostSearch::create(made.problem, 1, Replication::Rotate);
    REQUIRE(search);
    const Seconds first = search->predicted();
    search->improve(1000);
    faster += search->predicted() < first;
    search->improve_order(200);
    const auto planned = search->plan();
    REQUIRE(planned);
    CHECK(lower_bound(made.problem) <= planned->estimate.step);
    CHECK(planned->plan.replication == Replication::Rotate);
    CHECK(planned->plan.microbatch == 1);
    check_hosts(planned->plan);
    for (const Stage& stage : planned->plan.stages)
      uneven += 128 % stage.workers.size() != 0;
    const double ratio = planned->estimate.step / search->predicted();
    near += ratio > 0.8 && ratio < 1.2;
  }
  CHECK(faster > 20);
  CHECK(uneven > 10);
  CHECK(near > 30);
}

TEST_CASE("inside a host, every layer has a stage and every device a group") {
  RandomProblems random(97);
  const Cluster two = load_cluster("2x4xV100@50MB/s/20MB/s").value();
  const Islands hosts = islands_of(two).front();
  int faster = 0, near = 0;
  for (int i = 0; i < 60; ++i) {
    CAPTURE(i);
    RandomProblem made = random.next();
    *made.cluster = load_cluster("4xV100@50MB/s").value();
    made.problem.minibatch = 96;
    made.problem.memory_limit = Bytes(0);
    made.problem.microbatches = {12, 24};
    const auto search = HostSearch::create_in_host(made.problem, 1, hosts);
    REQUIRE(search);
    const Seconds first = search->predicted();
    search->improve_all(1000);
    CHECK(search->predicted() <= first);
    faster += search->predicted() < first;
    const auto planned = search->plan();
    REQUIRE(planned);
    CHECK(lower_bound(made.problem) <= planned->estimate.step);
    CHECK(planned->plan.devices.size() == 4);
    const double ratio = planned->estimate.step / search->predicted();
    near += ratio > 0.9 && ratio < 1.1;
  }
  CHECK(faster > 10);
  CHECK(near > 50);
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
  made.problem.memory_limit = Bytes(0);
  made.problem.microbatches = {8};
  const auto devices = [&] {
    const auto search = HostSearch::create(made.problem, 1, Replication::Split);
    REQUIRE(search);
    search->improve(4000);
    return devices_per_stage(search->plan().value().plan);
  };
  // All hosts hold both layers: 8 s of forwards, then 8 s of the first layer's
  // weight gradients while those of the second are summed for 1.75 s.
  CHECK(devices() == std::vector<std::size_t>{8, 8});
  // Now that takes 8 s + 35 s. With one host for the weights: 8 microbatches of
  // 8 samples on 6 devices, two samples on some, 2 s each: 32 s.
  made.profile->parameters[0].bytes = Bytes(20'000'000);
  CHECK(devices() == std::vector<std::size_t>{6, 2});
}

TEST_CASE(
    "of a long model, stages on whole hosts end between groups of layers") {
  RandomProblems random(98);
  const auto groups = [&](int least, int most) {
    RandomProblem made = random.next(most);
    while (made.profile->num_layers() < least) made = random.next(most);
    *made.cluster = load_cluster("4x2xV100@50MB/s/20MB/s").value();
    made.problem.minibatch = 64;
    made.problem.memory_limit = Bytes(0);
    made.problem.microbatches = {8};
    const auto search = HostSearch::create(made.problem, 1, Replication::Split);
    REQUIRE(search);
    return search->plan().value().layer_groups;
  };
  CHECK(groups(10, 100) == 0);
  const int few = groups(200, 300);
  CHECK(few > 25);
  CHECK(few <= 101);
}

TEST_CASE("one host, asynchronous methods: no stages on whole hosts") {
  RandomProblems random(97);
  RandomProblem made = random.next();
  *made.cluster = load_cluster("4xV100@50MB/s").value();
  made.problem.minibatch = 64;
  made.problem.microbatches = {8};
  CHECK(!HostSearch::create(made.problem, 4, Replication::Split));
  *made.cluster = load_cluster("4x2xV100@50MB/s/1MB/s").value();
  made.problem.method = Method::Stash;
  CHECK(!HostSearch::create(made.problem, 4, Replication::Split));
}

}  // namespace pipewright
