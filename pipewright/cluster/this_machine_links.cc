#include "pipewright/cluster/this_machine_links.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "pipewright/cluster/cluster_builder.h"
#include "pipewright/cluster/cluster_text.h"
#include "pipewright/cluster/gpu_driver.h"
#include "pipewright/cluster/sum_rounds.h"
#include "pipewright/cluster/this_machine.h"
#include "pipewright/cluster/this_machine_gpu.h"

namespace pipewright {
namespace {

// From a message that is all latency to one that is all bandwidth.
constexpr std::int64_t kSmallest = 1 << 10, kLargest = 1 << 26;
constexpr std::int64_t kFactor = 4;

// Of each device: the number of its GPU, or none.
std::vector<std::optional<int>> gpus_of(const Cluster& cluster) {
  std::vector<std::optional<int>> gpus;
  std::map<std::string, int> num_of_kind;
  for (const Device& device : cluster.devices()) {
    const std::string& kind =
        cluster.kinds()[static_cast<std::size_t>(device.kind)].name;
    const int share = gpu_share(kind);
    const int place = num_of_kind[kind]++;
    if (share == 0)
      gpus.emplace_back();
    else
      gpus.emplace_back(kind == "cuda-stream" ? 0 : place / share);
  }
  return gpus;
}

// By size; fails where the driver cannot copy.
Result<std::vector<MessageTime>> times_by_size(
    const std::string& between,
    const std::function<double(std::int64_t)>& seconds_of) {
  std::vector<MessageTime> times;
  for (std::int64_t bytes = kSmallest; bytes <= kLargest; bytes *= kFactor) {
    const double seconds = seconds_of(bytes);
    if (seconds <= 0)
      return bad_configuration(
          std::to_string(bytes) + " bytes cannot be copied between " + between,
          "leave --measure out, and give a link, such as @nvlink");
    times.push_back({Bytes(bytes), Seconds(seconds)});
  }
  return times;
}

Result<Link> measured_link(int from, int to) {
  PIPEWRIGHT_TRY(
      const auto times,
      times_by_size(
          "GPU " + std::to_string(from) + " and GPU " + std::to_string(to),
          [&](std::int64_t bytes) {
            return GpuDriver::here().copy_seconds(from, to, bytes);
          }));
  return link_of(times);
}

Result<std::vector<MessageTime>> measured_exchanges(
    const std::vector<std::optional<int>>& gpus) {
  std::vector<int> known;
  for (const std::optional<int>& gpu : gpus)
    if (gpu) known.push_back(*gpu);
  return times_by_size("all GPUs", [&](std::int64_t bytes) {
    return GpuDriver::here().exchange_seconds(known, bytes);
  });
}

}  // namespace

Link link_of(std::vector<MessageTime> times) {
  // A message that took longer than a larger one was disturbed.
  for (std::size_t i = times.size() - 1; i-- > 0;)
    times[i].time = std::min(times[i].time, times[i + 1].time);
  Link link;
  link.latency = times.front().time;
  std::vector<double> rates;
  for (std::size_t i = 1; i < times.size(); ++i) {
    const double beyond = (times[i].time - link.latency).value();
    const auto bytes = static_cast<double>(times[i].message.value());
    rates.push_back(beyond > 0 ? bytes / beyond : 0);
  }
  // What is within the latency, or seems faster than the largest, is noise.
  const double highest =
      rates.back() > 0 ? rates.back()
                       : static_cast<double>(times.back().message.value()) /
                             times.back().time.value();
  link.bandwidth = BytesPerSecond(highest);
  for (std::size_t i = 0; i < rates.size(); ++i)
    link.rates.push_back(
        {times[i + 1].message,
         BytesPerSecond(rates[i] > 0 ? std::min(rates[i], highest) : highest)});
  return link;
}

MessageRates collective_rates_of(const std::vector<MessageTime>& times,
                                 int devices, const Link& link) {
  MessageRates rates;
  for (const MessageTime& each : times) {
    const Bytes piece = each.message / devices;
    // Of each of 2 (r - 1) pieces.
    const double beyond =
        (each.time.value() - sum_rounds(devices) * link.latency.value()) /
        (2 * (devices - 1));
    const double highest = link.bandwidth.value();
    const double rate =
        beyond > 0 ? static_cast<double>(piece.value()) / beyond : highest;
    rates.push_back(
        {std::max(Bytes(1), piece), BytesPerSecond(std::min(rate, highest))});
  }
  return rates;
}

Result<Cluster> with_measured_links(const Cluster& cluster) {
  const std::vector<std::optional<int>> gpus = gpus_of(cluster);
  const auto num_gpus = static_cast<int>(
      std::count_if(gpus.begin(), gpus.end(),
                    [](const auto& gpu) { return gpu.has_value(); }));
  if (cluster.num_hosts() > 1 || num_gpus < 2)
    return bad_configuration(
        "\"" + cluster.name() + "\" has no links between GPUs of this machine",
        "measure 2xcuda, 4xcuda/4 or 4xcuda-stream; cores hand tensors over "
        "without a copy");
  ClusterBuilder builder(cluster.name());
  for (const DeviceKind& kind : cluster.kinds()) builder.add_kind(kind);
  for (const SharedResource& each : cluster.resources())
    builder.add_resource(each);
  for (const Device& device : cluster.devices()) builder.add_device(device);
  PIPEWRIGHT_TRY(const auto exchanges, measured_exchanges(gpus));
  std::map<std::pair<int, int>, Link> known;
  for (int from = 0; from < cluster.num_devices(); ++from)
    for (int to = 0; to < cluster.num_devices(); ++to) {
      const DeviceId a(from), b(to);
      const Link* link = cluster.link(a, b);
      if (a == b || link == nullptr) continue;
      if (!gpus[a.index()] || !gpus[b.index()]) {
        builder.connect(a, b, *link);
        continue;
      }
      const std::pair pair(*gpus[a.index()], *gpus[b.index()]);
      if (!known.contains(pair)) {
        PIPEWRIGHT_TRY(Link measured, measured_link(pair.first, pair.second));
        measured.collective_rates =
            collective_rates_of(exchanges, num_gpus, measured);
        known[pair] = std::move(measured);
      }
      builder.connect(a, b, known.at(pair));
    }
  return builder.build();
}

Result<Cluster> this_machine_cluster() {
  const GpuDriver& driver = GpuDriver::here();
  if (!driver.why_none().empty())
    return parse_cluster_text(std::to_string(num_cores()) + "xcpu");
  PIPEWRIGHT_TRY(const Cluster cluster,
                 parse_cluster_text(std::to_string(driver.count()) + "xcuda"));
  return driver.count() == 1 ? cluster : with_measured_links(cluster);
}

}  // namespace pipewright
