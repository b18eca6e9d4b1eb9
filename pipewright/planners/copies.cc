#include "pipewright/planners/copies.h"

#include <algorithm>
#include <map>
#include <utility>

#include "pipewright/base/index.h"
#include "pipewright/cluster/part_of_cluster.h"

namespace pipewright {
namespace {

// Two groups have equal links if a one-to-one renaming of shared resources
// makes them equal. The renaming is built up link by link.
class Renaming {
 public:
  explicit Renaming(const std::vector<SharedResource>& resources)
      : resources_(resources),
        there_(resources.size(), -1),
        back_(resources.size(), -1) {}

  bool are_equal(const Link* a, const Link* b) {
    // Neighbours often have the same link.
    if (std::pair(a, b) == last_ && is_last_equal_) return true;
    last_ = {a, b};
    is_last_equal_ = can_be_equal(a, b);
    return is_last_equal_;
  }
  // Of each resource; below 0: it has none.
  const std::vector<int>& names() const { return there_; }

 private:
  bool can_be_equal(const Link* a, const Link* b) {
    if (a == nullptr || b == nullptr) return a == b;
    if (a == b && a->uses.empty()) return true;
    if (a->bandwidth != b->bandwidth || a->latency != b->latency ||
        a->duplex != b->duplex || a->uses.size() != b->uses.size() ||
        a->rates != b->rates || a->collective_rates != b->collective_rates)
      return false;
    for (std::size_t u = 0; u < a->uses.size(); ++u)
      if (a->uses[u].upstream != b->uses[u].upstream ||
          !rename(a->uses[u].resource, b->uses[u].resource))
        return false;
    return true;
  }

  bool rename(int a, int b) {
    int &to = there_[at(a)], &from = back_[at(b)];
    if (to < 0) to = b;
    if (from < 0) from = a;
    if (to != b || from != a) return false;
    const SharedResource& one = resources_[at(a)];
    const SharedResource& other = resources_[at(b)];
    return one.bandwidth == other.bandwidth && one.duplex == other.duplex;
  }

  const std::vector<SharedResource>& resources_;
  std::vector<int> there_, back_;
  std::pair<const Link*, const Link*> last_;
  bool is_last_equal_ = false;
};

struct Groups {
  const Cluster& cluster;
  int size;

  DeviceId device(int copy, int d) const { return DeviceId(copy * size + d); }
  const Link* link(int copy, int a, int b) const {
    return cluster.link(device(copy, a), device(copy, b));
  }
};

// Compares group c with group 0. Between groups only reductions send, and these
// are timed over all copies. used_by is the group that uses each resource.
bool is_equal(const Groups& groups, int c, std::vector<int>& used_by) {
  Renaming inside(groups.cluster.resources());
  for (int a = 0; a < groups.size; ++a) {
    const auto& devices = groups.cluster.devices();
    if (devices[groups.device(0, a).index()].kind !=
        devices[groups.device(c, a).index()].kind)
      return false;
    for (int b = 0; b < groups.size; ++b)
      if (a != b &&
          !inside.are_equal(groups.link(0, a, b), groups.link(c, a, b)))
        return false;
  }
  for (int there : inside.names()) {
    if (there < 0) continue;
    int& user = used_by[at(there)];
    if (user >= 0 && user != c) return false;
    user = c;
  }
  return true;
}

// At most a fifth of the devices may be in no group.
constexpr int kMaxUnusedPart = 5;

bool host_ends_at(const Cluster& cluster, int device) {
  const auto& devices = cluster.devices();
  if (cluster.num_hosts() == 1) return true;
  return devices[at(device)].host != devices[at(device) - 1].host;
}

// Workers that hold the same stages are neighbours: the first worker of each
// such block, and the number of workers in it.
using Blocks = std::map<int, int>;

Result<Blocks> blocks_of(const Plan& plan) {
  Blocks blocks;
  std::vector<int> block_of(plan.devices.size(), -1);
  const Error scattered = bad_configuration(
      "a plan whose stages share some but not all workers cannot be copied");
  for (const Stage& stage : plan.stages) {
    const int first = stage.workers.front().value;
    const int count = static_cast<int>(stage.workers.size());
    const auto [block, is_new] = blocks.try_emplace(first, count);
    if (block->second != count) return scattered;
    for (int i = 0; i < count; ++i) {
      if (stage.workers[at(i)].value != first + i) return scattered;
      int& owner = block_of[at(first + i)];
      if (owner >= 0 && owner != first) return scattered;
      owner = first;
    }
  }
  if (std::count(block_of.begin(), block_of.end(), -1) > 0) return scattered;
  return blocks;
}

Orders copied(const Orders& orders, const Blocks& blocks, int copies) {
  Orders all;
  if (orders.empty()) return all;
  for (const auto& [first, count] : blocks)
    for (int c = 0; c < copies; ++c)
      for (int i = 0; i < count; ++i) all.push_back(orders[at(first + i)]);
  return all;
}

// The orders of copies that take turns at microbatches.
Orders in_turns(Orders orders, const Blocks& blocks, int copies) {
  std::size_t worker = 0;
  for (const auto& [first, count] : blocks)
    for (int c = 0; c < copies; ++c)
      for (int i = 0; i < count; ++i, ++worker)
        for (ComputeAction& action : orders[worker])
          action.microbatch =
              MicrobatchId(action.microbatch.value * copies + c);
  return orders;
}

Result<Schedule> copied_schedule(const Plan& plan, const Blocks& blocks,
                                 int copies) {
  const Schedule::Sections& sections = plan.schedule.sections();
  const int microbatches = plan.schedule.num_microbatches();
  if (!takes_turns(plan))
    return Schedule::create(plan.num_stages(), microbatches,
                            {copied(sections.prologue, blocks, copies),
                             copied(sections.body, blocks, copies),
                             copied(sections.epilogue, blocks, copies),
                             sections.minibatches_outside});
  if (plan.schedule.is_asynchronous())
    return bad_configuration(
        "a plan whose replicas take turns at minibatches that overlap cannot "
        "be copied");
  return Schedule::create(
      plan.num_stages(), microbatches * copies,
      in_turns(copied(sections.body, blocks, copies), blocks, copies));
}

}  // namespace

bool has_equal_groups(const Cluster& cluster, const EqualGroups& groups) {
  if (groups.size < 1 || groups.count < 1) return false;
  std::vector<int> used_by(cluster.resources().size(), -1);
  for (int c = 0; c < groups.count; ++c)
    if (!is_equal({cluster, groups.size}, c, used_by)) return false;
  return true;
}

EqualGroups groups_of(const Cluster& cluster, int size) {
  return {cluster.num_devices() / size, size};
}

std::vector<EqualGroups> equal_groups(const Cluster& cluster, int max_size) {
  std::vector<EqualGroups> all;
  const int devices = cluster.num_devices();
  for (int size = 1; size <= std::min(max_size, devices / 2); ++size) {
    const EqualGroups groups = groups_of(cluster, size);
    const int unused = devices - groups.count * size;
    if (unused * kMaxUnusedPart <= devices && host_ends_at(cluster, size) &&
        has_equal_groups(cluster, groups))
      all.push_back(groups);
  }
  return all;
}

Result<Cluster> first_devices(const Cluster& cluster, int count) {
  std::vector<DeviceId> devices;
  for (int d = 0; d < count; ++d) devices.push_back(DeviceId(d));
  return part_of_cluster(cluster, devices);
}

bool takes_turns(const Plan& plan) {
  return plan.replication == Replication::Rotate &&
         std::any_of(plan.stages.begin(), plan.stages.end(),
                     [](const Stage& s) { return s.workers.size() > 1; });
}

bool have_samples(const Plan& plan, const EqualGroups& groups, int minibatch) {
  if (takes_turns(plan)) return plan.minibatch * groups.count == minibatch;
  const int microbatch = minibatch / plan.num_microbatches();
  const bool is_even = plan.microbatch * groups.count == microbatch;
  return std::none_of(
      plan.stages.begin(), plan.stages.end(), [&](const Stage& stage) {
        return static_cast<int>(stage.workers.size()) * groups.count >
                   microbatch ||
               (!is_even && !stage.samples.empty());
      });
}

Result<Plan> copies_of(const Plan& plan, const EqualGroups& groups,
                       int minibatch) {
  PIPEWRIGHT_TRY(const Blocks blocks, blocks_of(plan));
  const auto [copies, size] = groups;
  Plan whole = plan;
  whole.minibatch = minibatch;
  if (!takes_turns(plan)) {
    whole.microbatch = minibatch / plan.num_microbatches();
    whole.replication = Replication::Split;
  }
  if (!have_samples(plan, groups, minibatch))
    return bad_configuration("a microbatch of " +
                             std::to_string(whole.microbatch) +
                             " samples cannot be divided among " +
                             std::to_string(copies) + " copies of the plan");
  whole.devices.clear();
  for (const auto& [first, count] : blocks)
    for (int c = 0; c < copies; ++c)
      for (int i = 0; i < count; ++i)
        whole.devices.push_back(
            DeviceId(plan.devices[at(first + i)].value + c * size));
  for (Stage& stage : whole.stages) {
    const int first = stage.workers.front().value * copies;
    const int count = static_cast<int>(stage.workers.size()) * copies;
    stage.workers.clear();
    for (int i = 0; i < count; ++i)
      stage.workers.push_back(WorkerId(first + i));
    const std::vector<int> samples = stage.samples;
    for (int c = 1; c < copies; ++c)
      stage.samples.insert(stage.samples.end(), samples.begin(), samples.end());
  }
  PIPEWRIGHT_TRY(whole.schedule, copied_schedule(plan, blocks, copies));
  return whole;
}

}  // namespace pipewright
