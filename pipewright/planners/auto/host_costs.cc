#include "pipewright/planners/auto/host_costs.h"

#include <algorithm>
#include <numeric>

#include "pipewright/base/check.h"
#include "pipewright/base/index.h"
#include "pipewright/base/infinity.h"
#include "pipewright/cluster/sum_rounds.h"
#include "pipewright/planners/cut_positions.h"

namespace pipewright {
namespace {

constexpr int kMaxHostCuts = 100;
// The rest is for messages and workspaces.
constexpr double kUsableMemory = 0.85;

// Every action as many times as a host has devices: each computes a microbatch
// of its own.
std::vector<ComputeAction> for_each_device(
    const std::vector<ComputeAction>& order, int devices) {
  std::vector<ComputeAction> all;
  all.reserve(order.size() * at(devices));
  for (ComputeAction action : order) {
    const int first = action.microbatch.value * devices;
    for (int d = 0; d < devices; ++d) {
      action.microbatch = MicrobatchId(first + d);
      all.push_back(action);
    }
  }
  return all;
}

}  // namespace

HostCosts::HostCosts(const Problem& group, int copies,
                     const HostIslands& islands, CostTable table)
    : group_(group),
      copies_(copies),
      islands_(islands),
      table_(std::move(table)),
      cuts_(cut_positions(table_, 0, kMaxHostCuts)),
      values_(values_of(*group.profile, table_.microbatch())) {
  for (int hosts = 0; hosts <= num_hosts(); ++hosts) {
    const double r = num_replicas(hosts);
    ring_share_.push_back(hosts * copies_ < 2 ? 0 : 2 * (r - 1) / r);
  }
  const double microbatches = double(group.minibatch) / table_.microbatch();
  for (int first = 0; first < last(); ++first) {
    auto& compute = compute_.emplace_back(cuts_.size(), 0.0);
    auto& exchanged = exchanged_.emplace_back(cuts_.size(), 0.0);
    const std::vector<double> bytes = exchanged_bytes(cuts_[at(first)]);
    for (int end = first + 1; end <= last(); ++end) {
      const int from = cuts_[at(first)], to = cuts_[at(end)];
      compute[at(end)] = table_.compute(0, from, to).value() /
                         islands_.max_devices * microbatches;
      if (!islands_.is_one_host)
        exchanged[at(end)] = bytes[at(to)] / islands_.rate * microbatches;
    }
  }
}

double HostCosts::reduction(int first, int end, int hosts) const {
  return seconds_on_cards(first, end, hosts) + ring_latency(hosts);
}

double HostCosts::seconds_on_cards(int first, int end, int hosts) const {
  const auto bytes = static_cast<double>(
      table_.parameters(cuts_[at(first)], cuts_[at(end)]).value());
  return ring_share_[at(hosts)] * bytes / islands_.ring_rate;
}

double HostCosts::ring_latency(int hosts) const {
  if (hosts * copies_ < 2) return 0;
  return sum_rounds(num_replicas(hosts)) * islands_.ring_latency;
}

std::vector<int> HostCosts::microbatches() const {
  std::vector<int> sizes;
  for (int microbatch : group_.microbatches)
    if (group_.minibatch % (microbatch * microbatches_per_turn()) == 0)
      sizes.push_back(microbatch * microbatches_per_turn());
  return sizes;
}

std::optional<HostWork> HostCosts::work(const HostShape& shape) {
  for (int hosts : shape.hosts)
    if (!can_split(shape.microbatch, hosts)) return {};
  HostWork work;
  work.microbatches = num_microbatches(shape.microbatch);
  work.groups = static_cast<int>(shape.hosts.size());
  work.latency = islands_.latency;
  work.is_one_host = islands_.is_one_host;
  if (take_turns()) work.turns = shape.hosts;
  for (std::size_t s = 0; s < shape.stages.size(); ++s)
    work.stages.push_back(times_of(shape, s));
  if (!limit_in_flight(shape, work)) return {};
  add_transfers(shape, work);
  return work;
}

HostOrder HostCosts::predicted(const HostShape& shape, double limit) {
  HostOrder order;
  order.seconds = kInfinity;
  const std::optional<HostWork> work = this->work(shape);
  if (!work) return order;
  const double load = host_load(*work);
  if (load < limit) order = host_order(*work, false, limit);
  order.seconds = std::max(order.seconds, load);
  return order;
}

Pipeline HostCosts::pipeline(const HostShape& shape) const {
  std::vector<std::vector<DeviceId>> devices;  // per group
  int device = 0;
  for (int hosts : shape.hosts) {
    auto& own = devices.emplace_back();
    for (int i = 0; i < hosts * islands_.max_devices; ++i)
      own.push_back(DeviceId(device++));
  }
  Pipeline pipeline;
  pipeline.microbatch = shape.microbatch / microbatches_per_turn();
  pipeline.schedule = "";
  pipeline.replication = islands_.replication;
  pipeline.layer_groups = layer_groups(cuts_);
  for (const HostStage& each : shape.stages) {
    PipelineStage stage;
    stage.end = cuts_[at(each.end)];
    stage.devices = devices[at(each.group)];
    pipeline.stages.push_back(std::move(stage));
  }
  return pipeline;
}

Result<Schedule> HostCosts::schedule(const HostShape& shape) {
  const std::optional<HostWork> work = this->work(shape);
  PIPEWRIGHT_CHECK(work.has_value(), "a pipeline was found that has no costs");
  const int each = microbatches_per_turn();
  Orders orders = host_order(*work, true).orders;
  for (auto& order : orders) order = for_each_device(order, each);
  return Schedule::create(static_cast<int>(shape.stages.size()),
                          work->microbatches * each, std::move(orders));
}

std::vector<HostCosts::Value> HostCosts::values_of(const Profile& profile,
                                                   int microbatch) {
  const auto sizes = sizes_at(profile, microbatch, Outside::Extrapolate);
  const std::vector<LayerId> storage = profile.storages();
  std::vector<Value> values(profile.layers.size());
  for (std::size_t l = 0; l < values.size() && sizes; ++l) {
    values[l].layer = static_cast<int>(l);
    values[l].bytes = static_cast<double>((*sizes)[l].output.value());
    for (LayerId input : profile.layers[l].inputs)
      values[storage[input.index()].index()].users.push_back(
          static_cast<int>(l));
  }
  std::erase_if(values, [](const Value& v) { return v.users.empty(); });
  return values;
}

// Bytes that cross the ends of the layers from the first one to each other one,
// in one direction, there or back.
std::vector<double> HostCosts::exchanged_bytes(int first) const {
  std::vector<double> more(at(table_.num_layers()) + 2, 0.0);
  const auto add = [&](int from, double bytes) { more[at(from)] += bytes; };
  for (const Value& value : values_) {
    const bool is_made_before = value.layer < first;
    const auto user =
        is_made_before
            ? std::lower_bound(value.users.begin(), value.users.end(), first)
            : value.users.begin();
    if (user == value.users.end()) continue;
    add((is_made_before ? *user : value.layer) + 1, value.bytes);
    if (!is_made_before) add(value.users.back() + 1, -value.bytes);
  }
  std::partial_sum(more.begin(), more.end(), more.begin());
  return more;
}

// Bytes at the table's microbatch size.
double HostCosts::kept(int first, int end) {
  if (kept_.empty()) kept_.resize(cuts_.size());
  const int layer = cuts_[at(first)];
  std::vector<Bytes>& sums = kept_[at(first)];
  if (sums.empty()) sums = table_.kept_from(layer);
  return static_cast<double>(sums[at(cuts_[at(end)] - layer)].value());
}

// False if not even one microbatch fits.
bool HostCosts::limit_in_flight(const HostShape& shape, HostWork& work) {
  const double copies = 2 + group_.optimizer_words;  // weights, gradients
  std::vector<GroupMemory> memory(shape.hosts.size());
  for (std::size_t s = 0; s < shape.stages.size(); ++s) {
    const int first = shape.first(s), end = shape.stages[s].end;
    GroupMemory& own = memory[at(shape.stages[s].group)];
    own.states +=
        copies *
        static_cast<double>(
            table_.parameters(cuts_[at(first)], cuts_[at(end)]).value());
    const int replicas = num_sharing(shape.hosts[at(shape.stages[s].group)]);
    own.kept += kept(first, end) / table_.microbatch() *
                ((shape.microbatch + replicas - 1) / replicas);
  }
  const double usable =
      kUsableMemory *
      static_cast<double>(group_.memory_of(DeviceId(0)).value());
  for (HostStageTimes& stage : work.stages) {
    const GroupMemory& own = memory[at(stage.group)];
    const double free = usable - own.states;
    if (free < own.kept) return false;
    if (free < own.kept * work.microbatches)
      stage.max_in_flight = static_cast<int>(free / own.kept);
  }
  return true;
}

HostStageTimes HostCosts::times_of(const HostShape& shape, std::size_t stage) {
  const HostStage& own = shape.stages[stage];
  const int hosts = shape.hosts[at(own.group)];
  const int replicas = num_sharing(hosts);
  const Sums& sums = sums_of((shape.microbatch + replicas - 1) / replicas);
  const int first = shape.first(stage);
  const auto between = [&](const std::vector<double>& sum) {
    return sum[at(own.end)] - sum[at(first)];
  };
  HostStageTimes times;
  times.group = own.group;
  times.urgency = own.urgency;
  times.forward = between(sums.forward);
  times.backward_input = between(sums.input);
  times.backward_weight = between(sums.weight);
  times.reduction = seconds_on_cards(first, own.end, hosts);
  times.after = between(sums.update);
  if (times.reduction > 0) times.after += ring_latency(hosts);
  return times;
}

// Each value is sent once to each group that uses it, for the first of its
// stages there.
void HostCosts::add_transfers(const HostShape& shape, HostWork& work) {
  const std::size_t count = shape.stages.size();
  std::vector<std::size_t> stage_of;
  for (std::size_t s = 0; s < count; ++s)
    stage_of.resize(at(cuts_[at(shape.stages[s].end)]), s);
  const auto group_of = [&](std::size_t stage) {
    return at(shape.stages[stage].group);
  };
  std::vector<double> bytes(count * count, 0);
  std::vector<int> sent_to(shape.hosts.size(), -1);  // the last such layer
  for (const Value& value : values_) {
    const std::size_t from = stage_of[at(value.layer)];
    sent_to[group_of(from)] = value.layer;
    for (int user : value.users) {
      const std::size_t to = stage_of[at(user)];
      if (sent_to[group_of(to)] == value.layer) continue;
      sent_to[group_of(to)] = value.layer;
      bytes[from * count + to] += value.bytes;
    }
  }
  const double seconds = 1 / (table_.microbatch() * islands_.rate);
  for (std::size_t from = 0; from < count; ++from)
    for (std::size_t to = from + 1; to < count; ++to) {
      const double each = bytes[from * count + to] * seconds;
      if (each <= 0) continue;
      const CardSamples& samples =
          samples_on_cards(shape.microbatch, shape.hosts[group_of(from)],
                           shape.hosts[group_of(to)]);
      work.transfers.push_back({static_cast<int>(from), static_cast<int>(to),
                                each * samples.out, each * samples.in});
    }
}

// Every pair of devices with samples in common has a message. Those of a card
// are sent at the same rate, so that all take as long as the largest; inside a
// host each has a link of its own.
const HostCosts::CardSamples& HostCosts::samples_on_cards(int microbatch,
                                                          int from, int to) {
  if (take_turns()) from = to = 1;  // one host has all of a microbatch
  const auto [known, is_new] =
      card_samples_.try_emplace(std::tuple(microbatch, from, to));
  if (!is_new) return known->second;
  struct Card {
    int messages = 0, largest = 0;
  };
  const auto samples = [&](const Card& card) {
    return double(islands_.is_one_host ? 1 : card.messages) * card.largest;
  };
  std::vector<Card> senders(at(from)), receivers(at(to));
  const int per_host = islands_.max_devices;
  const int num_senders = from * per_host, num_receivers = to * per_host;
  for (int a = 0, b = 0, first = 0; a < num_senders && b < num_receivers;) {
    const int end_of_a = microbatch * (a + 1) / num_senders;
    const int end_of_b = microbatch * (b + 1) / num_receivers;
    const int end = std::min(end_of_a, end_of_b);
    for (Card* card :
         {&senders[at(a / per_host)], &receivers[at(b / per_host)]}) {
      ++card->messages;
      card->largest = std::max(card->largest, end - first);
    }
    first = end;
    if (end_of_a == end) ++a;
    if (end_of_b == end) ++b;
  }
  for (const Card& card : senders)
    known->second.out = std::max(known->second.out, samples(card));
  for (const Card& card : receivers)
    known->second.in = std::max(known->second.in, samples(card));
  return known->second;
}

const HostCosts::Sums& HostCosts::sums_of(int samples) {
  const auto [known, is_new] = sums_.try_emplace(samples);
  if (is_new) {
    const auto table =
        CostTable::create(*group_.profile, *group_.cluster, samples);
    Sums& sums = known->second;
    for (int cut : cuts_) {
      const Seconds input =
          table ? table->backward_input(0, 0, cut) : Seconds(0);
      sums.forward.push_back(table ? table->forward(0, 0, cut).value() : 0);
      sums.input.push_back(input.value());
      sums.weight.push_back(table ? (table->backward(0, 0, cut) - input).value()
                                  : 0);
      sums.update.push_back(table ? table->update(0, 0, cut).value() : 0);
    }
  }
  return known->second;
}

}  // namespace pipewright
