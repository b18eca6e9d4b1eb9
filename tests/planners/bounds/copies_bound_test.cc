// The bound on copied plans, compared with every pipeline of small groups, and
// by hand.

#include "pipewright/planners/bounds/copies_bound.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "pipewright/planners/copies.h"
#include "tests/planners/every_pipeline.h"
#include "tests/planners/random_problems.h"

namespace pipewright {
namespace {

// The fastest pipeline for one group, copied to all.
Seconds fastest_copies(const Problem& whole, const EqualGroups& groups) {
  const int copies = groups.count;
  const Cluster cluster = first_devices(*whole.cluster, groups.size).value();
  Problem group = whole;
  group.cluster = &cluster;
  group.minibatch /= copies;
  for (int& microbatch : group.microbatches) microbatch /= copies;
  group.estimate = [&](const Plan& plan) {
    return whole.estimate_copies(plan, groups);
  };
  return fastest_pipeline(group);
}

}  // namespace

TEST_CASE("no copied pipeline of small groups beats the bound") {
  RandomProblems random(79);
  const char* const clusters[] = {"4x1xV100@10MB/s/5MB/s+3ms",
                                  "4x2xV100@100MB/s/5MB/s+1ms",
                                  "8x1xV100@10MB/s/20MB/s"};
  int solved = 0, near = 0;
  for (int i = 0; i < 900; ++i) {
    CAPTURE(i);
    RandomProblem made = random.next(3);
    *made.cluster = load_cluster(clusters[i % 3]).value();
    for (ProfileParameter& parameter : made.profile->parameters)
      parameter.bytes = parameter.bytes * std::int64_t{random.number(1, 100)};
    Problem& problem = made.problem;
    problem.microbatches = {8, 16};
    problem.memory_limit = Bytes(0);
    problem.method = i % 5 == 4 ? Method::Stash : Method::Sync;
    set_estimators(problem);
    for (const EqualGroups& groups : equal_groups(*made.cluster, 2)) {
      CAPTURE(groups.size);
      const Seconds best = fastest_copies(problem, groups);
      if (best == Seconds::max()) continue;
      const Seconds bound = copies_bound(problem, groups);
      ++solved;
      CHECK(bound.value() <= best.value() * (1 + 1e-9));
      CHECK(copies_work(problem, groups) <= best * (1 + 1e-9));
      near += bound.value() > 0.9 * best.value();
    }
  }
  CHECK(solved > 1000);
  CHECK(near > 100);
}

TEST_CASE("the cards of copies sum all weights, after the forwards") {
  RandomProblems random(80);
  RandomProblem made = random.next();
  keep_two_layers(*made.profile, Bytes(4'000'000));
  const Seconds zero(0), one(1);
  made.profile->sizes = {
      {1, {{Bytes(4), Bytes(0), Bytes(0)}, {Bytes(4), Bytes(0), Bytes(0)}}}};
  made.profile->times = {
      {"V100", {{1, {{one, zero, one, zero}, {zero, zero, zero, zero}}}}}};
  *made.cluster = load_cluster("4x2xV100@1GB/s/1MB/s+10ms").value();
  made.problem.minibatch = 16;
  made.problem.microbatches = {16};
  // The forwards take 16 s / 8. Four copies of a host sum 4 MB: 6 s, and 4
  // times 10 ms.
  CHECK(copies_bound(made.problem, {4, 2}).value() ==
        doctest::Approx(2 + 6 + 0.04));
  // Of two copies of two hosts, each may have half of the weights.
  CHECK(copies_bound(made.problem, {2, 4}).value() ==
        doctest::Approx(2 + 2 + 0.02));
  made.problem.method = Method::Stash;
  CHECK(copies_bound(made.problem, {4, 2}).value() == doctest::Approx(6));
}

}  // namespace pipewright
