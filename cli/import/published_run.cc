#include "cli/import/published_run.h"

#include <algorithm>

#include "cli/import/measured_links.h"
#include "cli/import/published_cluster.h"
#include "pipewright/base/text.h"
#include "pipewright/planners/pipeline.h"
#include "pipewright/profile/formats/assembly.h"

namespace pipewright::cli {
namespace {

std::string kind_in(const Profile& profile) {
  return profile.times.empty() ? "accelerator" : profile.times.begin()->first;
}

// As the plans of PipeDream's runtime have.
bool has_workers(const PublishedPlan& plan) {
  return std::any_of(
      plan.stages.begin(), plan.stages.end(),
      [](const PublishedStage& stage) { return !stage.workers.empty(); });
}

// The last layer of each stage and one more, in the profile's numbers.
Result<std::vector<int>> stage_ends(const PublishedPlan& plan,
                                    const Profile& profile) {
  std::vector<int> ends;
  int next = 0;
  for (const PublishedStage& stage : plan.stages) {
    for (int layer : stage.layers)
      if (layer != next++)
        return bad_configuration(
            plan.source + ": layers " + std::to_string(next - 1) + " and " +
            std::to_string(layer) +
            " are not in order; here stages are consecutive layers");
    ends.push_back(plan.layers_before + next);
  }
  const int layers = plan.layers_before + next + plan.layers_after;
  if (layers != profile.num_layers())
    return bad_configuration(
        plan.source + " has " + std::to_string(next) +
            " layers, the profile of " + profile.model + " " +
            std::to_string(profile.num_layers() - plan.layers_before -
                           plan.layers_after),
        has_workers(plan)
            ? "its layers are modules of PipeDream's runtime, not layers of a "
              "graph.txt; a graph.txt with stage_id makes a plan"
            : "import the layer times of the plan's model; for a block that is "
              "listed once, say --blocks N");
  ends.back() = profile.num_layers();
  return ends;
}

int most_replicas(const PublishedPlan& plan) {
  int most = 1;
  for (const PublishedStage& stage : plan.stages)
    most = std::max(most, stage.replicas);
  return most;
}

struct BatchSizes {
  int minibatch = 1;
  int microbatch = 1;  // of all replicas together where they split it
};

// A source counts the samples of one replica. Replicas that split a microbatch
// here have one together.
Result<BatchSizes> batch_sizes(const PublishedPlan& plan,
                               const Profile& profile, int minibatch) {
  BatchSizes sizes;
  const int replicas = most_replicas(plan);
  const int profiled = profile.sizes.begin()->first;
  sizes.minibatch = plan.minibatch > 0 ? plan.minibatch : minibatch;
  if (plan.microbatch > 0)
    sizes.microbatch = plan.microbatch * (plan.rotates ? 1 : replicas);
  else if (plan.microbatches > 0 && sizes.minibatch > 0)
    sizes.microbatch = sizes.minibatch / plan.microbatches;
  else
    sizes.microbatch = profiled * (plan.rotates ? 1 : replicas);
  if (sizes.minibatch == 0)
    sizes.minibatch = sizes.microbatch * (plan.rotates ? replicas : 1);
  if (sizes.microbatch < 1 || sizes.minibatch % sizes.microbatch != 0)
    return bad_configuration(
        plan.source + ": a minibatch of " + std::to_string(sizes.minibatch) +
            " samples is not a whole number of microbatches of " +
            std::to_string(sizes.microbatch) + " (all replicas together)",
        plan.minibatch > 0 ? "the minibatch is that of " + plan.source +
                                 "; it can only be changed there"
                           : "give another with --minibatch N");
  return sizes;
}

bool recomputes(const PublishedStage& stage) {
  return !stage.recompute.empty() &&
         std::all_of(stage.recompute.begin(), stage.recompute.end(),
                     [](bool layer) { return layer; });
}

// The layers that have the flag, of all stages: "0 to 2, 7".
std::string layers_with(const PublishedPlan& plan,
                        std::vector<bool> PublishedStage::*flags,
                        bool (*counts)(const PublishedStage&)) {
  std::vector<std::pair<int, int>> ranges;
  for (const PublishedStage& stage : plan.stages)
    for (std::size_t i = 0; i < (stage.*flags).size() && counts(stage); ++i) {
      if (!(stage.*flags)[i]) continue;
      const int layer = stage.layers[i];
      if (ranges.empty() || ranges.back().second != layer - 1)
        ranges.push_back({layer, layer});
      ranges.back().second = layer;
    }
  std::vector<std::string> texts;
  for (const auto& [first, last] : ranges)
    texts.push_back(std::to_string(first) +
                    (first == last ? "" : " to " + std::to_string(last)));
  return join(texts, ", ");
}

// What a plan of ours does not have.
std::vector<std::string> dropped(const PublishedPlan& plan) {
  std::vector<std::string> notes;
  const std::string recomputed = layers_with(
      plan, &PublishedStage::recompute,
      [](const PublishedStage& stage) { return !recomputes(stage); });
  if (!recomputed.empty())
    notes.push_back("dropped: recomputation of layers " + recomputed +
                    "; here a stage recomputes all of its layers or none");
  const std::string sharded =
      layers_with(plan, &PublishedStage::shards_weights,
                  [](const PublishedStage&) { return true; });
  const std::string whole =
      "; here each replica keeps them whole and sums all gradients";
  if (!sharded.empty())
    notes.push_back(
        "dropped: sharded weights, gradients and optimizer state "
        "of layers " +
        sharded + whole);
  if (plan.data_parallel_type == "zero2" || plan.data_parallel_type == "zero3")
    notes.push_back(std::string("dropped: sharded ") +
                    (plan.data_parallel_type == "zero3" ? "weights, " : "") +
                    "gradients and optimizer state of " +
                    (sharded.empty() ? "all" : "the other") + " layers (" +
                    plan.data_parallel_type + ")" + whole);
  return notes;
}

// The first layer of a stage and its last one.
std::string layers_text(int first, int last) {
  return first == last ? "layer " + std::to_string(first) + " is"
                       : "layers " + std::to_string(first) + " to " +
                             std::to_string(last) + " are";
}

// Each stage's layers need times on each kind that they run on.
Result<void> check_times(const Pipeline& pipeline, const Cluster& cluster,
                         const PublishedPlan& plan, const Profile& profile) {
  std::vector<std::string> known;
  for (const auto& [kind, tables] : profile.times) known.push_back(kind);
  int first = 0;
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    const PipelineStage& stage = pipeline.stages[s];
    for (std::size_t r = 0; r < stage.devices.size(); ++r) {
      const std::string& kind = cluster.kind_of(stage.devices[r]).name;
      if (profile.times.count(kind)) continue;
      const std::vector<std::string>& named = plan.stages[s].devices;
      const bool is_plans = !named.empty() && kind.starts_with(named[r]);
      return bad_configuration(
          plan.source + ": " + layers_text(first, stage.end - 1) + " on " +
              kind + ", and there are layer times only of " +
              join(known, " and "),
          is_plans ? "import the layer times of " + named[r] + " too: MODEL/" +
                         named[r] + "/profile.json"
                   : "say with --device KIND what they are of, or give a "
                     "cluster of that kind with --on CLUSTER");
    }
    first = stage.end;
  }
  return {};
}

Result<Plan> plan_on(const Cluster& cluster, const PublishedPlan& plan,
                     const Profile& profile, int minibatch,
                     const std::string& planner) {
  PIPEWRIGHT_TRY(const std::vector<int> ends, stage_ends(plan, profile));
  PIPEWRIGHT_TRY(const BatchSizes sizes, batch_sizes(plan, profile, minibatch));
  Pipeline pipeline;
  pipeline.microbatch = sizes.microbatch;
  pipeline.schedule = plan.is_asynchronous       ? "async-1f1b"
                      : plan.schedule == "gpipe" ? "gpipe"
                                                 : "1f1b";
  pipeline.replication =
      plan.rotates ? Replication::Rotate : Replication::Split;
  int device = 0;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    PipelineStage stage;
    stage.end = ends[s];
    stage.recompute = recomputes(plan.stages[s]);
    for (int r = 0; r < plan.stages[s].replicas; ++r)
      stage.devices.push_back(DeviceId(device++));
    pipeline.stages.push_back(std::move(stage));
  }
  if (device > cluster.num_devices())
    return bad_configuration(plan.source + " needs " + std::to_string(device) +
                             " devices, the cluster has " +
                             std::to_string(cluster.num_devices()));
  if (auto timed = check_times(pipeline, cluster, plan, profile); !timed)
    return timed.error();
  Problem problem;
  problem.profile = &profile;
  problem.cluster = &cluster;
  problem.minibatch = sizes.minibatch;
  problem.method = plan.is_asynchronous ? Method::Stash : Method::Sync;
  problem.optimizer_words = plan.optimizer_words;
  PIPEWRIGHT_TRY(Plan planned, plan_of(pipeline, problem, planner));
  name_device_kinds(planned, cluster);
  return planned;
}

// Where the source gives no replicas, every device of the cluster is one.
Result<PublishedPlan> with_replicas_on(const Cluster& cluster,
                                       PublishedPlan plan) {
  const int stages = static_cast<int>(plan.stages.size());
  for (PublishedStage& stage : plan.stages) {
    if (stage.replicas > 0) continue;
    for (int degree : stage.tensor_parallel)
      if (degree != 1)
        return bad_configuration(
            plan.source + " has layers with tensor-parallel degree " +
            std::to_string(degree) + ", and the source has no times for it");
    if (cluster.num_devices() % stages != 0)
      return bad_configuration(plan.source + " has " + std::to_string(stages) +
                               " stages, and " +
                               std::to_string(cluster.num_devices()) +
                               " devices cannot be shared equally");
    stage.replicas = cluster.num_devices() / stages;
    stage.tensor_parallel.clear();
  }
  return plan;
}

Result<PublishedRun> devices_only(const Imported& imported) {
  if (imported.placement || !imported.splits.empty())
    return bad_configuration(
        "a split of a placement instance is not a plan of stages",
        "pipewright place INSTANCE solves the instance");
  if (imported.devices.size() != 1 ||
      imported.devices[0].bandwidth.value() <= 0)
    return bad_configuration(
        "the files have no plan, and no devices with links",
        "import a plan together with the layer times of its model");
  PIPEWRIGHT_TRY(Cluster cluster,
                 published_cluster(imported.devices[0], imported.from));
  return PublishedRun{std::move(cluster), std::nullopt, {}};
}

}  // namespace

Result<PublishedRun> published_run(const Imported& imported,
                                   const std::string& cluster, int minibatch) {
  if (imported.plans.empty()) return devices_only(imported);
  if (imported.plans.size() > 1)
    return bad_configuration(std::to_string(imported.plans.size()) +
                                 " plans: " + imported.plans[0].source + ", " +
                                 imported.plans[1].source,
                             "import one plan at a time");
  const PublishedPlan& plan = imported.plans.front();
  if (!imported.profile) {
    // A group that cannot be a device has no layer times either.
    if (auto groups = groups_of(plan, ""); !groups) return groups.error();
    return bad_configuration(
        plan.source + " is a plan without its layers: " + imported.no_profile,
        "import it together with the layer times of its model");
  }
  const Profile& profile = *imported.profile;
  const bool needs_cluster = std::any_of(
      plan.stages.begin(), plan.stages.end(),
      [](const PublishedStage& stage) { return stage.replicas == 0; });
  if (cluster.empty() && needs_cluster)
    return bad_configuration(plan.source + " does not say how many devices",
                             "give the cluster with --on CLUSTER");
  if (!cluster.empty()) {
    PIPEWRIGHT_TRY(Cluster given, load_cluster(cluster));
    PIPEWRIGHT_TRY(const PublishedPlan placed, with_replicas_on(given, plan));
    PIPEWRIGHT_TRY(Plan ours,
                   plan_on(given, placed, profile, minibatch, imported.from));
    PIPEWRIGHT_TRY(
        MeasuredLinks links,
        with_measured_rates(given, placed.stages, imported.bandwidths));
    std::vector<std::string> notes = dropped(plan);
    notes.insert(notes.end(), links.notes.begin(), links.notes.end());
    return PublishedRun{std::move(links.cluster), std::move(ours),
                        std::move(notes)};
  }
  PIPEWRIGHT_TRY(const auto groups, groups_of(plan, kind_in(profile)));
  PIPEWRIGHT_TRY(PublishedHosts hosts,
                 published_cluster(imported, plan, groups));
  PIPEWRIGHT_TRY(Plan ours, plan_on(hosts.cluster, plan, profile, minibatch,
                                    imported.from));
  std::vector<std::string> notes = dropped(plan);
  notes.insert(notes.end(), hosts.notes.begin(), hosts.notes.end());
  return PublishedRun{std::move(hosts.cluster), std::move(ours),
                      std::move(notes)};
}

}  // namespace pipewright::cli
