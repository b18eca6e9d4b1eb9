// Copies of a plan on equal groups: groups are compared correctly, and
// simulating two copies gives the same result as simulating all of them.

#include "pipewright/planners/copies.h"

#include <doctest/doctest.h>

#include "pipewright/estimate/copies_estimator.h"
#include "tests/planners/every_pipeline.h"
#include "tests/planners/random_problems.h"

namespace pipewright {
namespace {

Cluster cluster_of(const std::string& text) {
  return load_cluster(text).value();
}

// The whole problem, and that of its first group.
struct Grouped {
  RandomProblem whole;
  Cluster group;
  Problem part;
  int copies;
};

Grouped grouped_copies(RandomProblems& random, const std::string& text,
                       int size) {
  RandomProblem whole = random.next(5);
  *whole.cluster = cluster_of(text);
  whole.problem.memory_limit = Bytes(0);
  const int copies = whole.cluster->num_devices() / size;
  whole.problem.minibatch = 16 * copies;
  whole.problem.microbatches = {4 * copies, 8 * copies};
  whole.problem.estimate = simulating_estimator(whole.problem);
  whole.problem.estimate_copies = copies_estimator(whole.problem);
  Cluster group = first_devices(*whole.cluster, size).value();
  Problem part = whole.problem;
  part.minibatch = 16;
  part.microbatches = {4, 8};
  return {std::move(whole), std::move(group), std::move(part), copies};
}

// Sizes that do not grow in proportion make all copies be simulated: here they
// do, or not.
void make_proportional(Profile& profile) {
  const auto sizes = profile.sizes.begin()->second;
  const int first = profile.sizes.begin()->first;
  for (auto& [size, rows] : profile.sizes)
    for (std::size_t l = 0; l < rows.size(); ++l) {
      const auto scaled = [&](Bytes bytes) {
        return bytes * std::int64_t{size} / std::int64_t{first} /
               std::int64_t{size} * std::int64_t{size};
      };
      rows[l] = {scaled(sizes[l].output), scaled(sizes[l].keeps_private),
                 scaled(sizes[l].workspace), scaled(sizes[l].carried)};
    }
}

// An estimate of all copies of the plan, made from some of them, with that of
// the whole plan.
void check_equal(const Estimate& copied, const Estimate& whole,
                 const Plan& plan, int copies) {
  CHECK(copied.step == whole.step);
  CHECK(copied.traffic == whole.traffic);
  for (const Stage& stage : plan.stages)
    for (WorkerId worker : stage.workers) {
      const std::size_t first = stage.workers.front().index();
      CHECK(copied.memory[worker.index()] ==
            whole.memory[first * static_cast<std::size_t>(copies) +
                         worker.index() - first]);
    }
}

}  // namespace

TEST_CASE("equal hosts are equal groups, others are not") {
  using Groups = std::vector<EqualGroups>;
  CHECK(equal_groups(cluster_of("8x4xV100@nvlink/10GbE"), 16) ==
        Groups{{8, 4}, {4, 8}, {2, 16}});
  CHECK(equal_groups(cluster_of("6xV100@1GB/s"), 6) ==
        Groups{{6, 1}, {3, 2}, {2, 3}});
  CHECK(equal_groups(cluster_of("2xV100+2xT4@1GB/s"), 4).empty());
  CHECK(!has_equal_groups(cluster_of("4x2xV100@nvlink/10GbE"), {2, 3}));
  // One host of five may be left, but not two of eight.
  CHECK(equal_groups(cluster_of("5x4xV100@nvlink/10GbE"), 12) ==
        Groups{{5, 4}, {2, 8}});
  CHECK(equal_groups(cluster_of("8x4xV100@nvlink/10GbE"), 12) ==
        Groups{{8, 4}, {4, 8}});
}

TEST_CASE("two copies give the estimate of all copies") {
  RandomProblems random(5);
  int compared = 0;
  for (const auto& [text, size] :
       {std::pair{"3x2xV100@50MB/s/20MB/s", 2},
        std::pair{"4x2xV100@5MB/s/20MB/s", 2}, std::pair{"4xV100@30MB/s", 1},
        std::pair{"6xV100@30MB/s", 2}, std::pair{"6x1xV100@1GB/s/10MB/s", 2}})
    for (int i = 0; i < 12; ++i) {
      Grouped made = grouped_copies(random, text, size);
      if (i % 3 != 2) make_proportional(*made.whole.profile);
      made.part.cluster = &made.group;
      made.part.method = i % 4 == 3 ? Method::Stash : Method::Sync;
      made.whole.problem.method = made.part.method;
      int seen = 0;
      EveryPipeline(made.part, [&](const Pipeline& pipeline) {
        if (++seen % 2 != 0) return;
        const auto plan = plan_of(pipeline, made.part, "part");
        if (!plan) return;
        const EqualGroups groups{made.copies, size};
        const auto whole =
            copies_of(*plan, groups, made.whole.problem.minibatch);
        REQUIRE(whole);
        const auto all = made.whole.problem.estimate(*whole);
        const auto two = made.whole.problem.estimate_copies(*plan, groups);
        REQUIRE(bool(all) == bool(two));
        if (!all) return;
        check_equal(*two, *all, *plan, made.copies);
        CHECK(two->fits == all->fits);
        CHECK(two->staleness == all->staleness);
        CHECK(two->bubble == doctest::Approx(all->bubble));
        ++compared;
      }).run();
    }
  CHECK(compared > 400);
}

TEST_CASE("copies may have unequally many samples, of which all have some") {
  RandomProblems random(7);
  int compared = 0;
  for (int i = 0; i < 10; ++i) {
    Grouped made = grouped_copies(random, "3x2xV100@50MB/s/20MB/s", 2);
    make_proportional(*made.whole.profile);
    // Times in proportion, so that fewer samples never take longer.
    for (auto& [kind, sizes] : made.whole.profile->times)
      sizes.erase(std::next(sizes.begin()), sizes.end());
    made.part.cluster = &made.group;
    // 64 samples in microbatches of 16 are 6, 5 and 5 per copy.
    made.whole.problem.minibatch = 64;
    set_estimators(made.whole.problem);
    made.part.minibatch = 24;
    made.part.microbatches = {6};
    const EqualGroups groups{3, 2};
    EveryPipeline(made.part, [&](const Pipeline& pipeline) {
      const auto plan = plan_of(pipeline, made.part, "part");
      if (!plan) return;
      CHECK(have_samples(*plan, groups, 64));
      const auto whole = copies_of(*plan, groups, 64);
      REQUIRE(whole);
      CHECK(whole->minibatch == 64);
      CHECK(whole->microbatch == 16);
      const auto exact = made.whole.problem.estimate(*whole);
      const auto largest = made.whole.problem.estimate_copies(*plan, groups);
      if (!exact || !largest) return;
      CAPTURE(i);
      const double ratio = exact->step / largest->step;
      CAPTURE(ratio);
      CHECK(ratio <= 1.02);  // messages are divided in other places
      ++compared;
    }).run();
    // Two workers of three copies cannot share five samples.
    made.part.minibatch = made.part.microbatches[0] = 2;
    Pipeline replicas;
    replicas.microbatch = 2;
    replicas.stages = {{made.whole.profile->num_layers(),
                        -1,
                        {DeviceId(0), DeviceId(1)},
                        false}};
    const auto plan = plan_of(replicas, made.part, "part");
    REQUIRE(plan);
    CHECK(have_samples(*plan, groups, 6));
    CHECK(!have_samples(*plan, groups, 5));
    CHECK(!copies_of(*plan, groups, 5));
  }
  CHECK(compared > 100);
}

TEST_CASE("copies of replicas that take turns take turns, too") {
  RandomProblems random(6);
  int compared = 0;
  for (const auto& [text, size] :
       {std::pair{"3x2xV100@50MB/s/20MB/s", 2}, std::pair{"9xV100@30MB/s", 3},
        std::pair{"8x2xV100@5MB/s/20MB/s", 4}})
    for (int i = 0; i < 12; ++i) {
      CAPTURE(size);
      CAPTURE(i);
      Grouped made = grouped_copies(random, text, size);
      made.part.cluster = &made.group;
      int seen = 0;
      EveryPipeline(made.part, [&](Pipeline pipeline) {
        if (++seen % 3 != 0) return;
        pipeline.replication = Replication::Rotate;
        const auto plan = plan_of(pipeline, made.part, "part");
        if (!plan || !takes_turns(*plan)) return;
        const EqualGroups groups{made.copies, size};
        CHECK(!have_samples(*plan, groups, made.whole.problem.minibatch + 4));
        const auto whole =
            copies_of(*plan, groups, made.whole.problem.minibatch);
        REQUIRE(whole);
        CHECK(whole->microbatch == plan->microbatch);
        CHECK(whole->replication == Replication::Rotate);
        const auto all = made.whole.problem.estimate(*whole);
        const auto two = made.whole.problem.estimate_copies(*plan, groups);
        REQUIRE(bool(all) == bool(two));
        if (!all) return;
        check_equal(*two, *all, *plan, made.copies);
        ++compared;
      }).run();
    }
  CHECK(compared > 200);
}

TEST_CASE("copies of asynchronous replicas that take turns are refused") {
  RandomProblems random(6);
  Grouped made = grouped_copies(random, "4x4xV100@5MB/s/20MB/s", 4);
  made.part.cluster = &made.group;
  made.part.method = Method::Stash;
  Pipeline pipeline;
  pipeline.microbatch = 4;
  pipeline.schedule = "async-1f1b";
  pipeline.replication = Replication::Rotate;
  const std::vector<DeviceId> first = {DeviceId(0), DeviceId(1)},
                              last = {DeviceId(2), DeviceId(3)};
  pipeline.stages = {{1, -1, first, false},
                     {made.whole.profile->num_layers(), -1, last, false}};
  const auto plan = plan_of(pipeline, made.part, "part");
  REQUIRE(plan);
  CHECK(plan->schedule.is_asynchronous());
  CHECK(!copies_of(*plan, {4, 4}, 64));
}

}  // namespace pipewright
