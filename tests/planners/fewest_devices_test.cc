// The number of devices in a hint, compared with planning for that many and
// for one less.

#include "pipewright/planners/fewest_devices.h"

#include <doctest/doctest.h>

#include "tests/planners/random_problems.h"

namespace pipewright {
namespace {

Problem on(const Problem& problem, const Cluster& cluster) {
  Problem made = problem;
  made.cluster = &cluster;
  set_estimators(made);
  return made;
}

// A problem for which two devices are sometimes too small.
RandomProblem tight(RandomProblems& random) {
  RandomProblem made = random.next(8);
  *made.cluster = load_cluster("2xV100@100MB/s").value();
  made.problem.memory_limit = Bytes(random.number(60'000, 500'000));
  set_estimators(made.problem);
  return made;
}

}  // namespace

TEST_CASE("as many devices as the hint names are enough, one less is not") {
  int named = 0;
  for (const std::string name : {"balanced", "gpipe", "spp", "pipedream",
                                 "exact", "bapipe", "bi-partition", "auto"}) {
    CAPTURE(name);
    const Planner& planner = *find_planner(name).value();
    RandomProblems random(81);
    for (int i = 0; i < 8; ++i) {
      CAPTURE(i);
      RandomProblem made = tight(random);
      const auto planned = planner.plan(made.problem);
      if (planned) continue;
      const std::string& hint = planned.error().hint;
      const std::size_t end = hint.find(" devices are enough (--cluster ");
      if (end == std::string::npos) continue;
      const int devices = std::stoi(hint.substr(0, end));
      CHECK(hint.find("(--cluster " + std::to_string(devices) +
                      "xV100@100MB/s), fewer are not") != std::string::npos);
      ++named;
      for (int less : {0, 1}) {
        const Cluster cluster =
            load_cluster(std::to_string(devices - less) + "xV100@100MB/s")
                .value();
        CAPTURE(hint);
        CHECK(bool(planner.plan(on(made.problem, cluster))) == (less == 0));
      }
    }
  }
  CHECK(named > 8);
}

TEST_CASE("whole hosts are added, and a cluster from a file has no hint") {
  RandomProblems random(82);
  int named = 0;
  for (int i = 0; i < 100; ++i) {
    RandomProblem made = tight(random);
    *made.cluster = load_cluster("2x2xV100@100MB/s/10MB/s").value();
    const auto fewest = fewest_devices(made.problem, "balanced");
    if (!fewest) continue;
    ++named;
    CHECK(fewest->devices % 2 == 0);
    CHECK(fewest->cluster ==
          std::to_string(fewest->devices / 2) + "x2xV100@100MB/s/10MB/s");
  }
  CHECK(named > 0);
  RandomProblem made = tight(random);
  *made.cluster = load_cluster("1xV100+1xT4@100MB/s").value();
  made.problem.estimator_for = nullptr;
  CHECK(!fewest_devices(made.problem, "balanced"));
}

}  // namespace pipewright
