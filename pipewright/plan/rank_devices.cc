#include "pipewright/plan/rank_devices.h"

#include <algorithm>
#include <map>
#include <optional>

#include "pipewright/base/text.h"
#include "pipewright/cluster/this_machine_gpu.h"

namespace pipewright {
namespace {

// "" where the name only tells hosts apart.
std::string named_host(const Device& device) {
  const std::string name = device.name.substr(0, device.name.find('/'));
  const bool is_number =
      name.starts_with("host") && parse_integer(name.substr(4)).has_value();
  return name == device.name || is_number ? "" : name;
}

bool is_host_of(const std::string& name, const std::string& host) {
  return name == host || name == host.substr(0, host.find('.'));
}

Error planned_elsewhere(std::size_t worker, const Device& device,
                        const std::string& host) {
  const std::string w = std::to_string(worker);
  return bad_configuration(
      "worker " + w + " is planned on host " + named_host(device) +
          " (device " + device.name + "), but rank " + w + " runs on " + host,
      "list the hosts for mpirun in the order of the plan");
}

Error other_neighbours(std::size_t one, std::size_t other, bool on_one_host,
                       const std::vector<std::string>& hosts) {
  return bad_configuration(
      "workers " + std::to_string(one) + " and " + std::to_string(other) +
          " are planned on " + (on_one_host ? "one host" : "different hosts") +
          ", but run on " + hosts[one] + " and " + hosts[other],
      "start the ranks on the hosts of the plan, or plan for this cluster");
}

// Gives hosts of a cluster to hosts with ranks.
class HostChoice {
 public:
  explicit HostChoice(const Cluster& cluster) : cluster_(cluster) {
    for (int d = 0; d < cluster.num_devices(); ++d)
      devices_[cluster.devices()[static_cast<std::size_t>(d)].host].push_back(
          DeviceId(d));
  }

  // The devices of the host that is taken.
  Result<std::vector<DeviceId>> take(const std::string& host,
                                     std::size_t num_ranks) {
    for (const auto& [number, devices] : devices_)
      if (is_host_of(name_of(number), host))
        return taken(number, host, num_ranks);
    std::optional<int> larger;
    for (const auto& [number, devices] : devices_) {
      if (!name_of(number).empty()) continue;
      if (devices.size() == num_ranks) return taken(number, host, num_ranks);
      if (devices.size() > num_ranks && !larger) larger = number;
    }
    if (larger) return taken(*larger, host, num_ranks);
    return too_few(host, num_ranks, 0);
  }

 private:
  std::string name_of(int host) const {
    return named_host(cluster_.devices()[devices_.at(host).front().index()]);
  }

  static Error too_few(const std::string& host, std::size_t num_ranks,
                       std::size_t num_devices) {
    return bad_configuration(
        "host " + host + " has " +
            counted(static_cast<int>(num_ranks), "rank") +
            ", but the cluster has " +
            (num_devices == 0
                 ? "no host left for them"
                 : counted(static_cast<int>(num_devices), "device") + " there"),
        "give --cluster a cluster with all hosts that may take part");
  }

  Result<std::vector<DeviceId>> taken(int number, const std::string& host,
                                      std::size_t num_ranks) {
    std::vector<DeviceId> devices = devices_.at(number);
    devices_.erase(number);
    if (devices.size() < num_ranks)
      return too_few(host, num_ranks, devices.size());
    return devices;
  }

  const Cluster& cluster_;
  std::map<int, std::vector<DeviceId>> devices_;  // of hosts not yet taken
};

}  // namespace

Result<void> check_hosts(const Cluster& cluster, const Plan& plan,
                         const std::vector<std::string>& hosts) {
  std::map<int, std::size_t> first;  // rank on each host of the cluster
  for (std::size_t w = 0; w < plan.devices.size() && w < hosts.size(); ++w) {
    const DeviceId id = plan.devices[w];
    if (id.is_none() || id.value >= cluster.num_devices())
      return bad_configuration(
          "the plan uses device " + std::to_string(id.value) +
              ", but the cluster has " + std::to_string(cluster.num_devices()) +
              " devices",
          "give the cluster that the plan was made for");
    const Device& device = cluster.devices()[id.index()];
    const std::string name = named_host(device);
    if (!name.empty() && !is_host_of(name, hosts[w]))
      return planned_elsewhere(w, device, hosts[w]);
    first.emplace(device.host, w);
    for (const auto& [host, other] : first)
      if ((host == device.host) != (hosts[other] == hosts[w]))
        return other_neighbours(other, w, host == device.host, hosts);
  }
  return {};
}

Result<std::vector<DeviceId>> devices_of_ranks(
    const Cluster& cluster, const std::vector<std::string>& hosts) {
  HostChoice choice(cluster);
  std::map<std::string, std::vector<DeviceId>> devices;  // of each host
  std::map<std::string, std::size_t> used;
  std::vector<DeviceId> found;
  for (const std::string& host : hosts) {
    if (!devices.contains(host)) {
      const auto ranks = std::count(hosts.begin(), hosts.end(), host);
      PIPEWRIGHT_TRY(devices[host],
                     choice.take(host, static_cast<std::size_t>(ranks)));
    }
    found.push_back(devices[host][used[host]++]);
  }
  return found;
}

int first_gpu_of_rank(const std::vector<std::string>& kinds,
                      const std::vector<std::string>& gpus, int rank) {
  const auto own = static_cast<std::size_t>(rank);
  int first = 0;
  for (std::size_t other = 0; other < own; ++other)
    if (kinds[other] != "cpu" && gpus[other] == gpus[own]) ++first;
  return first;
}

Result<void> check_gpu_kinds(const std::vector<std::string>& kinds,
                             const std::vector<std::string>& gpus) {
  std::map<std::string, std::string> kind_of;  // by the GPUs that are seen
  for (std::size_t w = 0; w < kinds.size() && w < gpus.size(); ++w) {
    if (gpu_share(kinds[w]) == 0) continue;
    const std::string& first = kind_of.emplace(gpus[w], kinds[w]).first->second;
    if (first == kinds[w]) continue;
    Error error = bad_configuration(
        "a plan cannot use both " + first + " and " + kinds[w],
        "give all its GPU workers one kind");
    error.where = "worker " + std::to_string(w);
    return error;
  }
  return {};
}

std::string other_devices(int num_workers, int num_gpus) {
  const std::string cores = "--device cpu trains this plan on CPU threads";
  if (num_gpus == 0)
    return cores + "; or plan for this machine, with --cluster " +
           std::to_string(num_workers) + "xcpu";
  return (num_workers <= num_gpus
              ? "--device cuda trains this plan on the GPUs here; "
              : "--device cuda-stream trains this plan on streams of the GPU "
                "here; ") +
         cores + "; or plan for this machine, with --cluster here";
}

Result<Plan> with_worker_per_device(const Plan& plan, const Cluster& cluster) {
  const auto num_devices = static_cast<std::size_t>(cluster.num_devices());
  std::vector<bool> is_used(num_devices, false);
  for (const DeviceId device : plan.devices) {
    if (is_used[device.index()])
      return bad_configuration("two workers are on device " +
                               std::to_string(device.value));
    is_used[device.index()] = true;
  }
  Plan moved = plan;
  moved.devices.clear();
  for (std::size_t d = 0; d < num_devices; ++d)
    moved.devices.push_back(DeviceId(d));
  name_device_kinds(moved, cluster);
  for (Stage& stage : moved.stages)
    for (WorkerId& worker : stage.workers)
      worker = WorkerId(plan.devices[worker.index()].value);
  ScheduleSections sections = plan.schedule.sections();
  for (Orders* orders :
       {&sections.prologue, &sections.body, &sections.epilogue}) {
    if (orders->empty()) continue;
    Orders placed(num_devices);
    for (std::size_t w = 0; w < orders->size(); ++w)
      placed[plan.devices[w].index()] = std::move((*orders)[w]);
    *orders = std::move(placed);
  }
  PIPEWRIGHT_TRY(
      moved.schedule,
      Schedule::create(plan.schedule.num_stages(),
                       plan.schedule.num_microbatches(), std::move(sections)));
  return moved;
}

}  // namespace pipewright
