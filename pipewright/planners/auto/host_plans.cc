#include "pipewright/planners/auto/host_plans.h"

#include <algorithm>

#include "pipewright/planners/bounds/islands.h"
#include "pipewright/planners/copies.h"

namespace pipewright {
namespace {

// About how many hosts a group has. Beside these, each host is a group.
constexpr int kGroupHosts[] = {8, 16, 32};
// The same where hosts take turns: more take long to simulate.
constexpr int kHostsInTurns = 16;
// At most this part of the hosts may be in no group.
constexpr int kMaxUnusedPart = 6;
// Pipelines with stages on whole hosts are simulated for at most two of their
// copies, so with fewer groups nothing would be gained.
constexpr int kMinHostCopies = 3;

// Changes of pipelines on whole hosts: of each number of hosts per group, and
// of the best two, and then of the order in these. Where hosts take turns each
// takes longer. Of pipelines inside a host.
constexpr int kFirstTries = 1500, kTries = 3000, kOrderTries = 500;
constexpr int kFirstTriesInTurns = 900, kTriesInTurns = 3000,
              kOrderTriesInTurns = 300;
constexpr int kFirstTriesInHost = 1000, kTriesInHost = 6000;
constexpr std::size_t kMaxImproved = 2;
// How many times as long as a step that is known theirs may take before: more
// is hardly gained.
constexpr double kWorthImproving = 1.25, kWorthImprovingAgain = 1.1,
                 kWorthSimulating = 0.98;

std::unique_ptr<HostSearch> search_of(const GroupProblem& group,
                                      const Problem& whole) {
  const auto [copies, size] = group.groups;
  if (group.cluster.num_hosts() > 1)
    return HostSearch::create(group.problem, copies, Replication::Split);
  const auto two = first_devices(*whole.cluster, 2 * size);
  if (!two) return nullptr;
  const std::vector<Islands> hosts = islands_of(*two);
  if (hosts.empty()) return nullptr;
  return HostSearch::create_in_host(group.problem, copies, hosts.front());
}

}  // namespace

HostPlans::HostPlans(const Problem& whole) : whole_(whole) {
  const int hosts = std::max(1, whole.cluster->num_hosts());
  const int per_host = whole.cluster->num_devices() / hosts;
  add({hosts, per_host});
  for (int wanted : kGroupHosts) {
    const int copies = (hosts + wanted / 2) / wanted;
    if (copies < kMinHostCopies) break;
    const int count = hosts / copies;
    if ((hosts - copies * count) * kMaxUnusedPart > hosts) continue;
    add({copies, count * per_host});
  }
  add_taking_turns();
  sort();
}

// Where groups have unequally many samples, those of the smallest microbatch
// size that a search takes.
void HostPlans::add(const EqualGroups& groups) {
  if (groups.count < kMinHostCopies ||
      !has_equal_groups(*whole_.cluster, groups))
    return;
  GroupProblems problems = group_problems(whole_, groups, true);
  for (; !problems.empty(); problems.pop_back())
    if (auto search = search_of(*problems.back(), whole_)) {
      groups_.push_back({std::move(problems.back()), std::move(search)});
      return;
    }
}

// Hosts take turns at microbatches, in as many groups as have equally many
// samples and about the wanted number of hosts.
void HostPlans::add_taking_turns() {
  const int hosts = std::max(1, whole_.cluster->num_hosts());
  const double wanted = double(hosts) / kHostsInTurns;
  const auto distance = [wanted](int copies) {
    return std::max(copies / wanted, wanted / copies);
  };
  int copies = 1;
  for (int each = kMinHostCopies; each <= hosts / 2; ++each)
    if (whole_.minibatch % each == 0 && distance(each) < distance(copies))
      copies = each;
  const int count = hosts / copies;
  if (copies == 1 || (hosts - copies * count) * kMaxUnusedPart > hosts) return;
  const EqualGroups groups{copies,
                           count * (whole_.cluster->num_devices() / hosts)};
  if (!has_equal_groups(*whole_.cluster, groups)) return;
  auto problem = rotating_group(whole_, groups);
  if (!problem || problem->cluster.num_hosts() < 2) return;
  auto search =
      HostSearch::create(problem->problem, groups.count, Replication::Rotate);
  if (search) groups_.push_back({std::move(problem), std::move(search)});
}

Seconds HostPlans::predicted() const {
  return groups_.empty() ? Seconds::max() : groups_.front().search->predicted();
}

std::optional<Copied> HostPlans::best(Seconds known) {
  improve(known);
  std::optional<Copied> best;
  keep_below(known * kWorthSimulating);
  for (const HostGroup& each : groups_) {
    if (each.search->predicted() >= known || whole_.is_over()) break;
    Result<Planned> tried = each.search->plan();
    if (!tried || !tried->estimate.fits || tried->estimate.step >= known ||
        !whole_.has_required_stages(tried->plan))
      continue;
    tried->why = each.is_one_host()
                     ? "It is auto's own, with an order of its own."
                     : "It is auto's own, with stages on whole hosts.";
    auto plan = copied(*std::move(tried), whole_, each.group->groups);
    if (!plan) continue;
    known = plan->planned.estimate.step;
    best = std::move(plan);
  }
  return best;
}

// All that are near what is known a little, and the best of those further.
void HostPlans::improve(Seconds known) {
  keep_below(known * kWorthImproving);
  // First those whose hosts take turns, which are often the best: others are
  // then not worth their time.
  std::stable_partition(
      groups_.begin(), groups_.end(),
      [](const HostGroup& group) { return group.search->take_turns(); });
  Seconds best = known;
  for (const HostGroup& group : groups_) {
    if (group.search->predicted() >= best * kWorthImproving) continue;
    group.improve_first();
    best = std::min(best, group.search->predicted());
  }
  sort();
  keep_below(known * kWorthImprovingAgain);
  if (groups_.size() > kMaxImproved)
    groups_.erase(groups_.begin() + kMaxImproved, groups_.end());
  // Inside a host each change takes long: only if that is best so far.
  for (std::size_t g = 0; g < groups_.size(); ++g)
    if (g == 0 || !groups_[g].is_one_host()) groups_[g].improve();
  sort();
}

void HostPlans::HostGroup::improve() const {
  if (is_one_host()) {
    search->improve_all(kTriesInHost);
  } else if (search->take_turns()) {
    search->improve_all(kTriesInTurns);
    search->improve_order(kOrderTriesInTurns);
  } else {
    search->improve(kTries);
    search->improve_order(kOrderTries);
  }
}

void HostPlans::HostGroup::improve_first() const {
  if (is_one_host())
    search->improve_all(kFirstTriesInHost);
  else
    search->improve(search->take_turns() ? kFirstTriesInTurns : kFirstTries);
}

void HostPlans::keep_below(Seconds limit) {
  std::erase_if(groups_, [limit](const HostGroup& group) {
    return group.search->predicted() >= limit;
  });
}

void HostPlans::sort() {
  std::stable_sort(groups_.begin(), groups_.end(),
                   [](const HostGroup& a, const HostGroup& b) {
                     return a.search->predicted() < b.search->predicted();
                   });
}

}  // namespace pipewright
