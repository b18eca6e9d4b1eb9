#include "pipewright/planners/auto/host_order.h"

#include <algorithm>

#include "pipewright/base/check.h"
#include "pipewright/base/index.h"
#include "pipewright/base/infinity.h"

namespace pipewright {
namespace {

enum Kind {
  kForward,
  kInput,
  kWeight
};

constexpr ComputeKind kComputeKinds[] = {ComputeKind::Forward,
                                         ComputeKind::BackwardInput,
                                         ComputeKind::BackwardWeight};

// A neighbour of a stage, and the seconds that a message to it takes on the
// card of either side. Without any it is only waited for.
struct Neighbour {
  std::size_t stage;
  double out, in;
  bool is_sent() const { return out > 0 || in > 0; }
};

class HostOrdering {
 public:
  HostOrdering(const HostWork& work, bool with_orders, double limit)
      : work_(work),
        with_orders_(with_orders),
        limit_(limit),
        microbatches_(at(work.microbatches)),
        stages_(work.stages.size()),
        groups_(at(work.groups)),
        link_free_(work.is_one_host ? groups_.size() * groups_.size() : 0) {
    inputs_.reserve(3 * stages_.size() * microbatches_);
    link_stages();
    set_ranks();
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      Progress& stage = stages_[s];
      add_to_group(s);
      const int most = work.stages[s].max_in_flight;
      stage.max_in_flight = most > 0 ? at(most) : microbatches_;
      // An input gradient waits for its own forward, and for the gradients of
      // what that made.
      const int waits[] = {int(stage.makers.size()),
                           int(stage.users.size()) + 1, 1};
      for (Kind kind : {kForward, kInput, kWeight}) {
        inputs_.insert(inputs_.end(), microbatches_, {waits[kind], 0});
        set_ready(s, kind);
      }
    }
  }

  HostOrder run() {
    if (with_orders_) order_.orders.resize(groups_.size());
    for (Group& group : groups_) find_next(group);
    while (Group* group = earliest()) {
      const double end = group->start + least_left(*group);
      if (end >= limit_) {
        order_.seconds = end;
        order_.last_group = static_cast<int>(group - groups_.data());
        return std::move(order_);
      }
      run_next(*group);
    }
    for (const Progress& stage : stages_)
      PIPEWRIGHT_CHECK(stage.done[kWeight] == microbatches_,
                       "a group of hosts waits forever");
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      const double end = stages_[s].reduced + work_.stages[s].after;
      if (end <= order_.seconds) continue;
      order_.seconds = end;
      order_.last_group = work_.stages[s].group;
    }
    return std::move(order_);
  }

 private:
  struct Input {
    int missing;
    double time;  // of the latest that has arrived
  };
  struct Progress {
    std::vector<Neighbour> users, makers;
    double path[3] = {0, 0, 0};  // the longest to the end of the step
    double rank[3] = {0, 0, 0};
    std::size_t done[3] = {0, 0, 0};
    // When the next action of a kind can start; infinity: not known.
    double ready[3] = {0, 0, 0};
    std::size_t max_in_flight = 0;
    double reduced = 0;  // when its gradients are summed
  };
  struct Group {
    std::vector<std::size_t> stages;
    double clock = 0, out_free = 0, in_free = 0;
    double reduced = 0;       // when its reductions so far end
    double left = 0;          // seconds to compute
    double last = kInfinity;  // seconds after that: the shortest reduction
    // What it does next; a start of infinity: nothing that is known.
    double start = kInfinity, rank = 0;
    std::size_t stage = 0;
    Kind kind = kForward;
  };

  void add_to_group(std::size_t s) {
    const HostStageTimes& times = work_.stages[s];
    Group& group = groups_[at(times.group)];
    group.stages.push_back(s);
    group.last = std::min(group.last, times.reduction + times.after);
    for (Kind kind : {kForward, kInput, kWeight})
      group.left += seconds(times, kind) * double(microbatches_);
  }

  void link_stages() {
    const auto link = [&](std::size_t from, std::size_t to, double out,
                          double in) {
      stages_[from].users.push_back({to, out, in});
      stages_[to].makers.push_back({from, in, out});
    };
    std::vector<bool> follows(stages_.size(), false);
    for (const HostTransfer& each : work_.transfers) {
      link(at(each.from), at(each.to), each.out, each.in);
      if (each.to == each.from + 1) follows[at(each.to)] = true;
    }
    for (std::size_t s = 1; s < stages_.size(); ++s)
      if (!follows[s]) link(s - 1, s, 0, 0);
  }

  double message(const Neighbour& to) const {
    return to.is_sent() ? std::max(to.out, to.in) + work_.latency : 0;
  }

  void set_ranks() {
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      Progress& stage = stages_[s];
      const HostStageTimes& times = work_.stages[s];
      stage.path[kWeight] =
          times.backward_weight + times.reduction + times.after;
      double rest = stage.path[kWeight];
      for (const Neighbour& maker : stage.makers)
        rest =
            std::max(rest, message(maker) + stages_[maker.stage].path[kInput]);
      stage.path[kInput] = times.backward_input + rest;
    }
    for (std::size_t s = stages_.size(); s-- > 0;) {
      Progress& stage = stages_[s];
      double rest = stage.path[kInput];
      for (const Neighbour& user : stage.users)
        rest =
            std::max(rest, message(user) + stages_[user.stage].path[kForward]);
      stage.path[kForward] = work_.stages[s].forward + rest;
    }
    const double longest = stages_[0].path[kForward];
    for (std::size_t s = 0; s < stages_.size(); ++s)
      for (Kind kind : {kForward, kInput, kWeight})
        stages_[s].rank[kind] =
            stages_[s].path[kind] + work_.stages[s].urgency[kind] * longest;
  }

  static double seconds(const HostStageTimes& times, Kind kind) {
    return kind == kForward ? times.forward
           : kind == kInput ? times.backward_input
                            : times.backward_weight;
  }

  Input& input(std::size_t s, Kind kind, std::size_t microbatch) {
    return inputs_[(3 * s + kind) * microbatches_ + microbatch];
  }

  void set_ready(std::size_t s, Kind kind) {
    Progress& stage = stages_[s];
    const std::size_t next = stage.done[kind];
    stage.ready[kind] = kInfinity;
    if (next == microbatches_) return;
    if (kind == kForward && next - stage.done[kWeight] >= stage.max_in_flight)
      return;
    const Input& own = input(s, kind, next);
    if (own.missing == 0) stage.ready[kind] = own.time;
  }

  // From the start of the group's next action on, the step takes no less: all
  // that the group computes and a reduction; or the actions of the same kind of
  // that stage, and what follows the last of them.
  double least_left(const Group& group) const {
    const Progress& stage = stages_[group.stage];
    const auto others =
        static_cast<double>(microbatches_ - stage.done[group.kind] - 1);
    return std::max(group.left + group.last,
                    others * seconds(work_.stages[group.stage], group.kind) +
                        stage.path[group.kind]);
  }

  void find_next(Group& group) {
    group.start = kInfinity;
    for (std::size_t s : group.stages)
      for (Kind kind : {kForward, kInput, kWeight})
        if (stages_[s].ready[kind] < kInfinity) consider(group, s, kind);
  }

  // Takes it as the group's next action if it can start earlier, or at the same
  // time and is more urgent.
  void consider(Group& group, std::size_t s, Kind kind) {
    const double start = std::max(group.clock, stages_[s].ready[kind]);
    const double rank = stages_[s].rank[kind];
    if (start > group.start || (start == group.start && rank <= group.rank))
      return;
    group.start = start;
    group.rank = rank;
    group.stage = s;
    group.kind = kind;
  }

  Group* earliest() {
    Group* first = nullptr;
    for (Group& group : groups_)
      if (group.start < (first ? first->start : kInfinity)) first = &group;
    return first;
  }

  void run_next(Group& group) {
    const std::size_t s = group.stage;
    const Kind kind = group.kind;
    Progress& stage = stages_[s];
    const std::size_t microbatch = stage.done[kind]++;
    const double taken = seconds(work_.stages[s], kind);
    group.clock = group.start + taken;
    group.left -= taken;
    set_ready(s, kind);
    if (kind == kWeight) set_ready(s, kForward);
    if (with_orders_) {
      ComputeAction action;
      action.stage = StageId(s);
      action.microbatch = MicrobatchId(microbatch);
      action.kind = kComputeKinds[kind];
      order_.orders[at(work_.stages[s].group)].push_back(action);
    }
    if (kind == kForward) {
      for (const Neighbour& user : stage.users)
        pass(group, user, kForward, microbatch);
      arrive(s, kInput, microbatch, group.clock);
    } else if (kind == kInput) {
      for (const Neighbour& maker : stage.makers)
        pass(group, maker, kInput, microbatch);
      arrive(s, kWeight, microbatch, group.clock);
    } else if (stage.done[kWeight] == microbatches_) {
      reduce(group, s);
    }
    find_next(group);
  }

  // Sends what the group has just made.
  void pass(Group& from, const Neighbour& to, Kind kind,
            std::size_t microbatch) {
    Group& there = groups_[at(work_.stages[to.stage].group)];
    double arrival = from.clock;
    if (to.is_sent() && &there != &from)
      arrival = work_.is_one_host ? arrival_over_link(from, there, to)
                                  : arrival_over_cards(from, there, to);
    const bool is_next = arrive(to.stage, kind, microbatch, arrival);
    if (is_next && &there != &from) consider(there, to.stage, kind);
  }

  double arrival_over_cards(Group& from, Group& there, const Neighbour& to) {
    const double out = seconds_on_card(from, to.out, from.clock);
    const double in = seconds_on_card(there, to.in, from.clock);
    const double arrival =
        std::max({from.clock, from.out_free, there.in_free}) +
        std::max(out, in) + work_.latency;
    from.out_free = std::max(from.out_free, from.clock) + out;
    there.in_free = std::max(there.in_free, from.clock) + in;
    return arrival;
  }

  double arrival_over_link(const Group& from, const Group& there,
                           const Neighbour& to) {
    double& free = link_free_[at(&from - groups_.data()) * groups_.size() +
                              at(&there - groups_.data())];
    free = std::max(free, from.clock) + std::max(to.out, to.in);
    return free + work_.latency;
  }

  // A message shares the card with a reduction: it takes twice as long, and the
  // reduction ends later by as much as the message takes alone.
  double seconds_on_card(Group& group, double seconds, double time) {
    if (group.reduced <= time) return seconds;
    group.reduced += seconds;
    for (std::size_t s : group.stages)
      if (stages_[s].reduced > time) stages_[s].reduced += seconds;
    return 2 * seconds;
  }

  // True if the stage's next action of that kind now has all its inputs.
  bool arrive(std::size_t s, Kind kind, std::size_t microbatch, double time) {
    Input& own = input(s, kind, microbatch);
    --own.missing;
    own.time = std::max(own.time, time);
    if (own.missing > 0 || microbatch != stages_[s].done[kind]) return false;
    set_ready(s, kind);
    return true;
  }

  // Sums the gradients of a stage, after those of earlier ones of the card.
  void reduce(Group& group, std::size_t s) {
    stages_[s].reduced = group.clock;
    if (work_.stages[s].reduction <= 0) return;
    double& free = work_.is_one_host ? card_free_ : group.reduced;
    free = std::max(free, group.clock) + work_.stages[s].reduction;
    stages_[s].reduced = free;
  }

  const HostWork& work_;
  const bool with_orders_;
  const double limit_;
  const std::size_t microbatches_;
  std::vector<Progress> stages_;
  std::vector<Input> inputs_;  // by stage, kind and microbatch
  std::vector<Group> groups_;
  std::vector<double> link_free_;  // of one host: by sender and receiver
  double card_free_ = 0;           // of one host
  HostOrder order_;
};

}  // namespace

HostOrder host_order(const HostWork& work, bool with_orders, double limit) {
  return HostOrdering(work, with_orders, limit).run();
}

double host_load(const HostWork& work) {
  struct Load {
    double compute = 0, reductions = 0, out = 0, in = 0;
    double last = kInfinity;  // the shortest reduction
  };
  std::vector<Load> loads(at(work.groups));
  for (const HostStageTimes& stage : work.stages) {
    Load& load = loads[at(stage.group)];
    load.compute +=
        stage.forward + stage.backward_input + stage.backward_weight;
    load.reductions += stage.reduction;
    load.last = std::min(load.last, stage.reduction + stage.after);
  }
  for (const HostTransfer& each : work.transfers) {
    Load& from = loads[at(work.stages[at(each.from)].group)];
    Load& to = loads[at(work.stages[at(each.to)].group)];
    if (&from == &to) continue;
    // There as an activation, back as a gradient.
    from.out += each.out;
    from.in += each.out;
    to.in += each.in;
    to.out += each.in;
  }
  double largest = 0, reductions = 0;
  for (const Load& load : loads) {
    largest = std::max(largest, load.compute * work.microbatches + load.last);
    reductions += load.reductions;
    if (!work.is_one_host)
      largest =
          std::max(largest, load.reductions + std::max(load.out, load.in) *
                                                  work.microbatches);
  }
  return work.is_one_host ? std::max(largest, reductions) : largest;
}

}  // namespace pipewright
