#include "cli/train/elastic.h"

#include <optional>

#include "cli/command.h"
#include "cli/plan/stages_text.h"
#include "pipewright/base/text.h"
#include "pipewright/cluster/part_of_cluster.h"
#include "pipewright/plan/rank_devices.h"

namespace pipewright::cli {
namespace {

using Hosts = std::vector<std::string>;

Result<Cluster> equal_devices(const Plan& plan, std::size_t count) {
  const std::string kind =
      plan.device_kinds.empty() ? "cpu" : plan.device_kinds.front();
  return load_cluster(std::to_string(count) + "x" + kind);
}

// The part of the cluster that ranks are on; device i is that of rank i.
Result<Cluster> cluster_of_ranks(const Cluster& cluster, const Hosts& hosts) {
  PIPEWRIGHT_TRY(const std::vector<DeviceId> devices,
                 devices_of_ranks(cluster, hosts));
  return part_of_cluster(cluster, devices);
}

bool is_for(const Hosts& hosts, const Plan& plan, const Cluster* cluster) {
  return static_cast<std::size_t>(plan.num_workers()) == hosts.size() &&
         (!cluster || check_hosts(*cluster, plan, hosts).ok());
}

void say_replanned(const Replanned& next, const Plan& before,
                   const Cluster& cluster) {
  const std::string microbatch =
      next.keeps_microbatch
          ? ""
          : "; the microbatch of " + counted(before.microbatch, "sample") +
                " does not fit, and is " +
                counted(next.plan.microbatch, "sample") + " now";
  say("pipewright: " + counted(cluster.num_devices(), "rank") +
      ", and the plan has " + counted(before.num_workers(), "worker") +
      ": planned again in " + to_text(next.planning) + ": " +
      stages_text(next.plan, cluster) + "; step " + to_text(next.step) +
      " as simulated" + microbatch + "; " +
      (next.keeps_bits ? "same bits as before" : "other bits than before"));
}

Result<Plan> plan_for_hosts(const Hosts& hosts, const Plan& plan,
                            const ElasticOptions& options) {
  std::optional<Cluster> whole;
  if (!options.cluster.empty()) {
    PIPEWRIGHT_TRY(whole, load_cluster(options.cluster));
  }
  if (is_for(hosts, plan, whole ? &*whole : nullptr)) return plan;
  PIPEWRIGHT_TRY(const Cluster cluster,
                 whole ? cluster_of_ranks(*whole, hosts)
                       : equal_devices(plan, hosts.size()));
  PIPEWRIGHT_TRY(const Replanned next,
                 replanned(plan, cluster, options.replanning));
  say_replanned(next, plan, cluster);
  return next.plan;
}

}  // namespace

Result<Plan> elastic_plan(Launch& launch,
                          const std::function<Result<Plan>()>& given,
                          const ElasticOptions& options) {
  const Hosts hosts = launch.hosts();
  Result<Plan> plan = bad_configuration("rank 0 has no plan");
  if (launch.leads()) {
    plan = given();
    if (plan) plan = plan_for_hosts(hosts, *plan, options);
  }
  const std::string text = launch.leaders_text(
      launch.leads() && plan ? to_json(*plan).to_text() : "");
  if (launch.leads() || text.empty()) return plan;
  return parse_plan(text, "the plan of rank 0");
}

}  // namespace pipewright::cli
