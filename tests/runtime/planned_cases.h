// What every planner makes of measured profiles of small networks, for tests
// that train it.

#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "pipewright/base/files.h"
#include "pipewright/cluster/cluster_builder.h"
#include "pipewright/estimate/estimator.h"
#include "pipewright/plan/gradient_buckets.h"
#include "pipewright/planners/bapipe/bapipe_exploration.h"
#include "pipewright/planners/planner.h"
#include "pipewright/planners/tuned_replicas.h"
#include "pipewright/profile/split_profile.h"

namespace pipewright::testing {

// One plan, and those who made it.
struct PlannedCase {
  std::string name;  // method, cluster, planners
  std::vector<std::string> planners;
  Plan plan;
};

// The measured profiles of tests/runtime/profiles/, by file name. Made by
//   pipewright profile MODEL --microbatch 2,4,8 -o FILE
inline const std::map<std::string, Profile>& stored_profiles() {
  static const auto kProfiles = [] {
    std::map<std::string, Profile> all;
    for (const std::string name : {"gpt", "lenet", "mlp"}) {
      const std::string file = std::string(PIPEWRIGHT_SOURCE_DIR) +
                               "/tests/runtime/profiles/" + name + ".json";
      all[name] = parse_profile(read_file(file).value(), file).value();
    }
    return all;
  }();
  return kProfiles;
}

// Of every planner, for each method that it plans for. What a planner refuses
// is left out.
inline std::vector<PlannedCase> planned_cases(const Profile& profile,
                                              const std::string& cluster_text) {
  const Cluster cluster = load_cluster(cluster_text).value();
  Problem problem;
  problem.profile = &profile;
  problem.cluster = &cluster;
  problem.minibatch = 32;
  problem.microbatches = {4, 8};
  problem.wants_bound = false;
  set_estimators(problem);
  std::map<std::string, PlannedCase> by_plan;
  for (const Method method :
       {Method::Sync, Method::Stash, Method::TwoBw, Method::PipeMare})
    for (const auto& planner : planners()) {
      problem.method = method;
      const Result<Planned> planned = planner->plan(problem);
      if (!planned) continue;
      Plan plan = planned->plan;
      plan.planner = "";
      PlannedCase& same = by_plan[to_json(plan).to_text()];
      if (same.planners.empty())
        same = {to_text(method) + " on " + cluster_text, {}, planned->plan};
      same.planners.push_back(planner->name());
      same.name += ", " + planner->name();
    }
  std::vector<PlannedCase> cases;
  for (auto& [text, each] : by_plan) cases.push_back(std::move(each));
  return cases;
}

// BaPipe's plan of the model with layers split between devices, and the profile
// of that model.
struct SplitCase {
  Profile profile;
  Plan plan;
};
inline SplitCase split_case(const Profile& profile, int devices) {
  DeviceKind kind;
  kind.name = "cpu";
  kind.achievable["float32"] = FlopsPerSecond(1e10);
  kind.memory = Bytes(std::int64_t{1} << 34);
  kind.memory_bandwidth = BytesPerSecond(1e10);
  kind.splits_layers = true;
  ClusterBuilder builder("cpus");
  const int number = builder.add_kind(kind);
  std::vector<DeviceId> ids;
  for (int d = 0; d < devices; ++d)
    ids.push_back(builder.add_device({"cpu" + std::to_string(d), number, 0}));
  Link link;
  link.bandwidth = BytesPerSecond(1e11);
  builder.connect(ids, ids, link);
  const Cluster cluster = builder.build().value();
  Problem problem;
  problem.profile = &profile;
  problem.cluster = &cluster;
  problem.minibatch = 32;
  problem.microbatches = {4};
  problem.may_split_layers = true;
  set_estimators(problem);
  BaPipeExploration exploration(problem, "bapipe");
  if (exploration.explore(4))
    for (const BaPipeCandidate& candidate : exploration.candidates())
      if (candidate.partition == "intra-layer" && candidate.planned) {
        const Plan& plan = candidate.planned->plan;
        return {with_splits(profile, plan.model, cluster.kinds()).value(),
                plan};
      }
  return {};
}

// The plan with a bucket per layer with weights, where it has replicas; else
// the plan itself.
inline Plan in_buckets(const Plan& plan, const Profile& profile) {
  return with_buckets(plan, profile, Bytes(1)).value();
}

// Data parallelism on two devices and one that is half as fast.
inline Plan unequal_shares(const Profile& profile) {
  Profile both = profile;
  auto& cpu = both.times.at("cpu");
  cpu = {{8, cpu.at(8)}};  // in proportion to the samples
  both.times["T4"] = cpu;
  for (auto& [size, layers] : both.times["T4"])
    for (LayerTimes& times : layers) {
      times.forward = times.forward * 2;
      times.backward_input = times.backward_input * 2;
      times.backward_weight = times.backward_weight * 2;
    }
  const Cluster cluster = load_cluster("2xcpu+1xT4@10GB/s").value();
  Problem problem;
  problem.profile = &both;
  problem.cluster = &cluster;
  problem.minibatch = 20;
  problem.microbatches = {10};
  problem.shares_by_speed = true;
  problem.wants_bound = false;
  set_estimators(problem);
  return plan_with_tuned_replicas(
             problem,
             [](const Problem& tuned) {
               return find_planner("data-parallel").value()->plan(tuned);
             })
      ->plan;
}

// Counts of different plans, by planner and by what they have.
struct PlannedTally {
  std::map<std::string, int> of_planner;
  int plans = 0, pipelines = 0, replicated = 0, cut_apart = 0;

  void count(const PlannedCase& each) {
    for (const std::string& planner : each.planners) ++of_planner[planner];
    ++plans;
    pipelines += each.plan.num_stages() > 1;
    bool has_replicas = false;
    for (const Stage& stage : each.plan.stages)
      has_replicas |= stage.workers.size() > 1;
    replicated += has_replicas;
    cut_apart += has_separate_cuts(each.plan);
  }
};

}  // namespace pipewright::testing
