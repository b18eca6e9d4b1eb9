// Planners with parts switched off: each plan lacks what was switched off, and
// with every part on the plan is the planner's own.

#include "pipewright/planners/planner_parts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <set>

#include "pipewright/base/files.h"
#include "pipewright/estimate/estimator.h"
#include "pipewright/model/model.h"
#include "pipewright/planners/cost_table.h"
#include "pipewright/profile/analytic.h"

namespace pipewright {
namespace {

// A profile, a cluster and their problem.
struct PartsCase {
  Profile profile;
  Cluster cluster;

  Problem problem(Method method = Method::Sync) const {
    Problem problem;
    problem.profile = &profile;
    problem.cluster = &cluster;
    const int samples = profile.sizes.begin()->first;
    problem.microbatches = {samples};
    problem.minibatch = method == Method::Stash ? samples : 8 * samples;
    problem.method = method;
    problem.estimate = simulating_estimator(problem);
    return problem;
  }
};

PartsCase measured_case(const std::string& net, const std::string& cluster) {
  const std::string path = std::string(PIPEWRIGHT_SOURCE_DIR) +
                           "/examples/profiles/" + net + "-v100.json";
  return {parse_profile(read_file(path).value(), path).value(),
          load_cluster(cluster).value()};
}

PartsCase fpga_case() {
  const Cluster cluster = load_cluster("2xVCU118+2xVCU129").value();
  const Model model = load_model("resnet18").value();
  return {analytic_profile(model, cluster.kinds(), std::array{1}).value(),
          cluster};
}

Result<Planned> planned_without(const Problem& problem,
                                const std::string& planner,
                                const std::vector<std::string>& parts) {
  const auto made = planner_without(planner, parts);
  REQUIRE(made.ok());
  CHECK((*made)->name() == planner);
  return (*made)->plan(problem);
}

bool is_same(const Plan& a, const Plan& b) {
  return a.stages == b.stages && a.devices == b.devices &&
         a.schedule_name == b.schedule_name && a.microbatch == b.microbatch;
}

bool has_replicas(const Plan& plan) {
  return std::any_of(plan.stages.begin(), plan.stages.end(),
                     [](const Stage& s) { return s.workers.size() > 1; });
}

}  // namespace

TEST_CASE("with every part a planner makes its own plan") {
  const PartsCase gnmt = measured_case("gnmt", "4xV100@1GB/s");
  std::set<std::string> names;
  for (const PlannerPart& part : planner_parts()) names.insert(part.planner);
  CHECK(names.size() >= 4);
  for (const std::string& name : names) {
    CAPTURE(name);
    const Problem problem = gnmt.problem();
    const Planned own = find_planner(name).value()->plan(problem).value();
    CHECK(is_same(planned_without(problem, name, {})->plan, own.plan));
  }
}

TEST_CASE("unknown parts and planners without parts are refused") {
  for (const PlannerPart& part : planner_parts())
    CHECK(planner_without(part.planner, {part.name}).ok());
  const auto wrong = planner_without("bapipe", {"separate-cuts"});
  REQUIRE(!wrong.ok());
  CHECK(wrong.error().code == ErrorCode::BadConfiguration);
  CHECK(wrong.error().hint.find("coarse-partition") != std::string::npos);
  CHECK(!planner_without("auto", {"coarse-partition"}).ok());
  CHECK(!planner_without("bapip", {}).ok());
}

TEST_CASE("a schedule that is switched off is in no plan of bapipe") {
  const PartsCase gpus = measured_case("gnmt", "4x1xV100/10GbE"),
                  fpgas = fpga_case();
  const Problem on_gpus = gpus.problem(), on_fpgas = fpgas.problem();
  const auto schedule = [](const Problem& problem, const std::string& off) {
    const auto found =
        planned_without(problem, "bapipe", {off, "data-parallelism"});
    REQUIRE(found.ok());
    CHECK(found->plan.num_stages() == 4);
    return found->plan.schedule_name;
  };
  CHECK(schedule(on_gpus, "1f1b-so") == "1f1b");
  CHECK(schedule(on_gpus, "1f1b-sno") == "1f1b-so");
  CHECK(schedule(on_fpgas, "fbp-as") == "1f1b");
  CHECK(schedule(on_fpgas, "1f1b-as") == "fbp");
  // Those of the other platform change nothing.
  CHECK(is_same(planned_without(on_gpus, "bapipe", {"fbp-as", "1f1b-as"})->plan,
                planned_without(on_gpus, "bapipe", {})->plan));
  CHECK(!planned_without(on_gpus, "bapipe",
                         {"1f1b-so", "1f1b-sno", "data-parallelism"})
             .ok());
}

TEST_CASE("bi-partition and pipedream without replicas and separate cuts") {
  const PartsCase vgg = measured_case("vgg16", "4xV100@nvlink");
  const Problem problem = vgg.problem(Method::Stash);
  CHECK(has_replicas(planned_without(problem, "pipedream", {})->plan));
  const Planned straight =
      planned_without(problem, "pipedream", {"replicas"}).value();
  CHECK(!has_replicas(straight.plan));
  CHECK(straight.plan.num_stages() == 4);
  const Planned split =
      planned_without(problem, "bi-partition", {"replicas"}).value();
  CHECK(!has_replicas(split.plan));
  CHECK(has_separate_cuts(split.plan));
  const Planned equal =
      planned_without(problem, "bi-partition", {"replicas", "separate-cuts"})
          .value();
  CHECK(!has_separate_cuts(equal.plan));
  CHECK(split.estimate.step < equal.estimate.step);
  CHECK(equal.estimate.step <= straight.estimate.step);
}

TEST_CASE("bi-partition without recompute") {
  const PartsCase net = measured_case("resnet50", "4x1xV100/10GbE");
  const Problem problem = net.problem(Method::Stash);
  const Planned with =
      planned_without(problem, "bi-partition", {"replicas"}).value();
  const Planned without =
      planned_without(problem, "bi-partition", {"replicas", "recompute"})
          .value();
  CHECK(has_recompute(with.plan));
  CHECK(!has_recompute(without.plan));
  CHECK(with.estimate.step < without.estimate.step);
}

// The slowest stage or transfer of every way to cut the layers, one stage per
// device, with PipeDream's own costs.
TEST_CASE("pipedream's straight pipeline is the best of all cuts") {
  const PartsCase alexnet = measured_case("alexnet", "3xV100@pcie3");
  const Planned found =
      planned_without(alexnet.problem(), "pipedream", {"replicas"}).value();
  const int samples = alexnet.profile.sizes.begin()->first;
  const CostTable costs =
      CostTable::create(alexnet.profile, alexnet.cluster, samples).value();
  const auto stage = [&](int first, int end) {
    const double transfer =
        first == 0 ? 0
                   : 2.0 * static_cast<double>(costs.crossing(first).value()) /
                         15.75e9;
    return std::max(costs.compute(0, first, end).value(), transfer);
  };
  double best = 1e9;
  const int layers = costs.num_layers();
  for (int a = 1; a < layers; ++a)
    for (int b = a + 1; b < layers; ++b)
      best = std::min(best,
                      std::max({stage(0, a), stage(a, b), stage(b, layers)}));
  CHECK(found.bottleneck.value() == doctest::Approx(best).epsilon(1e-9));
}

}  // namespace pipewright
