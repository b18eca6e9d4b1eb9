#include "cli/plan/stages_text.h"

#include <algorithm>
#include <optional>

#include "pipewright/base/text.h"
#include "pipewright/planners/choice.h"

namespace pipewright::cli {
namespace {

std::string before_slash(const Device& device) {
  return device.name.substr(0, device.name.find('/'));
}

// What the devices of one host, and no others, have before the slash; "" if
// there is no such name.
std::string host_name(int host, const Cluster& cluster) {
  std::optional<std::string> name;
  for (const Device& device : cluster.devices()) {
    if (device.host != host) continue;
    if (!name) name = before_slash(device);
    if (before_slash(device) != *name || device.name == *name) return "";
  }
  for (const Device& device : cluster.devices())
    if (device.host != host && before_slash(device) == *name) return "";
  return *name;
}

bool has_all_of_host(const std::vector<DeviceId>& devices, int host,
                     const Cluster& cluster) {
  const auto is_on = [&](const Device& device) { return device.host == host; };
  const auto& all = cluster.devices();
  return std::count_if(all.begin(), all.end(), is_on) ==
         std::count_if(devices.begin(), devices.end(), [&](DeviceId device) {
           return is_on(all[device.index()]);
         });
}

// A whole host where its first device would be.
std::vector<std::string> names_of(const std::vector<DeviceId>& devices,
                                  const Cluster& cluster) {
  std::vector<std::string> names;
  std::vector<int> named;  // hosts
  for (DeviceId id : devices) {
    const Device& device = cluster.devices()[id.index()];
    if (std::find(named.begin(), named.end(), device.host) != named.end())
      continue;
    const std::string host = has_all_of_host(devices, device.host, cluster)
                                 ? host_name(device.host, cluster)
                                 : "";
    if (!host.empty()) named.push_back(device.host);
    names.push_back(host.empty() ? device.name : host);
  }
  return names;
}

struct NumberedName {
  std::string stem;
  std::optional<std::int64_t> number;
};

NumberedName numbered(const std::string& name) {
  const std::size_t end = name.find_last_not_of("0123456789") + 1;
  return {name.substr(0, end), parse_integer(name.substr(end))};
}

bool is_next(const std::string& name, const std::string& after) {
  const NumberedName one = numbered(name), next = numbered(after);
  return one.stem == next.stem && one.number && next.number &&
         *next.number == *one.number + 1;
}

// Two names as they are: "a0+a1" is as short as "a0..1".
std::vector<std::string> in_runs(const std::vector<std::string>& names) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < names.size();) {
    std::size_t end = i + 1;
    while (end < names.size() && is_next(names[end - 1], names[end])) ++end;
    if (end - i < 3) end = i + 1;
    std::string part = names[i];
    if (end - i > 1)
      part += ".." + names[end - 1].substr(numbered(part).stem.size());
    parts.push_back(std::move(part));
    i = end;
  }
  return parts;
}

std::vector<std::string> parts_of(const std::vector<DeviceId>& devices,
                                  const Cluster& cluster) {
  return in_runs(names_of(devices, cluster));
}

std::vector<DeviceId> devices_of(const Stage& stage, const Plan& plan) {
  std::vector<DeviceId> devices;
  for (WorkerId worker : stage.workers)
    devices.push_back(plan.devices[worker.index()]);
  std::sort(devices.begin(), devices.end());
  return devices;
}

// "0-4", "7", "none".
std::string range_text(const std::vector<LayerId>& layers) {
  if (layers.empty()) return "none";
  const std::string first = std::to_string(layers.front().value);
  return layers.size() == 1 ? first
                            : first + "-" + std::to_string(layers.back().value);
}

// A stage with the buckets that go on with it: "0-4 (2 buckets)".
class WholeStage {
 public:
  explicit WholeStage(const Stage& stage) : layers_(stage.forward) {}

  void add_bucket(const Stage& bucket) {
    layers_.insert(layers_.end(), bucket.forward.begin(), bucket.forward.end());
    ++num_buckets_;
  }
  std::string to_text() const {
    return range_text(layers_) +
           (num_buckets_ > 1 ? " (" + std::to_string(num_buckets_) + " buckets)"
                             : "");
  }

 private:
  std::vector<LayerId> layers_;
  int num_buckets_ = 1;
};

// The stages that are on the same devices.
struct StagesOn {
  std::vector<DeviceId> devices;
  std::vector<WholeStage> stages;
};

std::vector<StagesOn> stages_by_devices(const Plan& plan) {
  std::vector<StagesOn> all;
  for (const Stage& stage : plan.stages) {
    const std::vector<DeviceId> devices = devices_of(stage, plan);
    auto on = std::find_if(all.begin(), all.end(), [&](const StagesOn& each) {
      return each.devices == devices;
    });
    if (on == all.end()) on = all.insert(on, {devices, {}});
    if (stage.bucket && !on->stages.empty())
      on->stages.back().add_bucket(stage);
    else
      on->stages.emplace_back(stage);
  }
  return all;
}

}  // namespace

std::string devices_text(const std::vector<DeviceId>& devices,
                         const Cluster& cluster) {
  return join(parts_of(devices, cluster), "+");
}

std::string stages_text(const Plan& plan, const Cluster& cluster) {
  constexpr std::size_t kMaxParts = 32;
  std::vector<std::string> all;
  std::size_t num_parts = 0;
  for (const StagesOn& on : stages_by_devices(plan)) {
    std::vector<std::string> ranges;
    for (const WholeStage& stage : on.stages) ranges.push_back(stage.to_text());
    const std::vector<std::string> names = parts_of(on.devices, cluster);
    num_parts += ranges.size() + names.size();
    all.push_back(join(ranges, "+") + " on " + join(names, "+"));
  }
  return num_parts > kMaxParts ? shape_text(plan) : "layers " + join(all, ", ");
}

}  // namespace pipewright::cli
