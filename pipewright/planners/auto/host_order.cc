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

// Messages of one card share its rate, so that several arrive later than one
// after the other, at other times than here. Hosts that take turns depend on
// many small ones: with orders that count on them early they wait. How many
// times as long such a message takes to arrive as its bytes alone.
constexpr double kSharedDelay = 3;
// And a card does not send at its own rate to one that others send to: for
// which part of the time that a message waits there the sender's is busy.
constexpr double kHeldBack = 0.5;

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
        delay_(work.turns.empty() ? 1 : kSharedDelay),
        held_back_(work.turns.empty() ? 0 : kHeldBack),
        stages_(work.stages.size()),
        groups_(at(work.groups)),
        link_free_(work.is_one_host ? groups_.size() * groups_.size() : 0) {
    inputs_.reserve(3 * stages_.size() * microbatches_);
    link_stages();
    set_ranks();
    add_places();
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      const Stage& stage = stages_[s];
      // An input gradient waits for its own forward, and for the gradients of
      // what that made.
      const int waits[] = {int(stage.makers.size()),
                           int(stage.users.size()) + 1, 1};
      for (Kind kind : {kForward, kInput, kWeight})
        inputs_.insert(inputs_.end(), microbatches_, {waits[kind], 0});
      for (std::size_t turn = 0; turn < stage.turns; ++turn)
        for (Kind kind : {kForward, kInput, kWeight}) set_ready(s, turn, kind);
    }
  }

  HostOrder run() {
    if (with_orders_) order_.orders.resize(groups_.size());
    for (Place& place : places_) find_next(place);
    while (Place* place = earliest()) {
      const double end = start(*place) + least_left(*place);
      if (end >= limit_) {
        order_.seconds = end;
        order_.last_group = static_cast<int>(place->group);
        return std::move(order_);
      }
      run_next(*place);
    }
    for (const Stage& stage : stages_)
      PIPEWRIGHT_CHECK(stage.left == 0, "a group of hosts waits forever");
    for (std::size_t s = 0; s < stages_.size(); ++s)
      for (std::size_t turn = 0; turn < stages_[s].turns; ++turn) {
        const double end = progress(s, turn).reduced + work_.stages[s].after;
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
  struct Stage {
    std::vector<Neighbour> users, makers;
    double path[3] = {0, 0, 0};  // the longest to the end of the step
    double rank[3] = {0, 0, 0};
    std::size_t first = 0;  // of its progress
    std::size_t turns = 1;  // of its group
    std::size_t left = 0;   // weight gradients
    double last = 0;        // when the last of them so far ends
    std::size_t max_in_flight = 0;
  };
  // Of one stage on one place.
  struct Progress {
    std::size_t done[3] = {0, 0, 0};
    // When the next action of a kind can start; infinity: not known.
    double ready[3] = {0, 0, 0};
    double reduced = 0;  // when its gradients are summed
  };
  struct Group {
    std::vector<std::size_t> stages;
    std::size_t first = 0, turns = 1;  // of its places
  };
  // What computes one action at a time: a group, or one of its hosts where they
  // take turns.
  struct Place {
    std::size_t group = 0, turn = 0;
    double clock = 0, out_free = 0, in_free = 0;
    double reduced = 0;  // when its reductions so far end
    std::size_t microbatches = 0;
    double left = 0;          // seconds to compute
    double last = kInfinity;  // seconds after that: the shortest reduction
    double rank = 0;          // of what it does next
    std::size_t stage = 0;
    Kind kind = kForward;
  };

  void add_places() {
    for (std::size_t s = 0; s < stages_.size(); ++s)
      groups_[at(work_.stages[s].group)].stages.push_back(s);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      Group& group = groups_[g];
      group.first = places_.size();
      if (!work_.turns.empty()) group.turns = at(work_.turns[g]);
      for (std::size_t turn = 0; turn < group.turns; ++turn) add_place(g, turn);
    }
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      Stage& stage = stages_[s];
      stage.turns = groups_[at(work_.stages[s].group)].turns;
      stage.first = progress_.size();
      stage.left = microbatches_;
      const int most = work_.stages[s].max_in_flight;
      stage.max_in_flight = most > 0 ? at(most) : microbatches_;
      progress_.resize(progress_.size() + stage.turns);
    }
  }

  void add_place(std::size_t g, std::size_t turn) {
    Place place;
    place.group = g;
    place.turn = turn;
    const std::size_t turns = groups_[g].turns;
    place.microbatches = (microbatches_ + turns - 1 - turn) / turns;
    const auto own = double(place.microbatches);
    for (std::size_t s : groups_[g].stages) {
      const HostStageTimes& times = work_.stages[s];
      place.last = std::min(place.last, times.reduction + times.after);
      for (Kind kind : {kForward, kInput, kWeight})
        place.left += seconds(times, kind) * own;
    }
    places_.push_back(place);
    starts_.push_back(kInfinity);
  }

  // Of what it does next; infinity: nothing that is known.
  double& start(const Place& place) {
    return starts_[groups_[place.group].first + place.turn];
  }

  Progress& progress(std::size_t s, std::size_t turn) {
    return progress_[stages_[s].first + turn];
  }
  const Progress& progress(std::size_t s, std::size_t turn) const {
    return progress_[stages_[s].first + turn];
  }
  Place& place_of(std::size_t s, std::size_t turn) {
    return places_[groups_[at(work_.stages[s].group)].first + turn];
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
      Stage& stage = stages_[s];
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
      Stage& stage = stages_[s];
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

  void set_ready(std::size_t s, std::size_t turn, Kind kind) {
    const Stage& stage = stages_[s];
    Progress& own = progress(s, turn);
    const std::size_t next = own.done[kind];
    const std::size_t microbatch = next * stage.turns + turn;
    own.ready[kind] = kInfinity;
    if (microbatch >= microbatches_) return;
    if (kind == kForward && next - own.done[kWeight] >= stage.max_in_flight)
      return;
    const Input& waits = input(s, kind, microbatch);
    if (waits.missing == 0) own.ready[kind] = waits.time;
  }

  // From the start of the place's next action on, the step takes no less: all
  // that the place computes and a reduction; or the actions of the same kind of
  // that stage, and what follows the last of them.
  double least_left(const Place& place) const {
    const Stage& stage = stages_[place.stage];
    const std::size_t done = progress(place.stage, place.turn).done[place.kind];
    const auto others = double(place.microbatches - done - 1);
    return std::max(place.left + place.last,
                    others * seconds(work_.stages[place.stage], place.kind) +
                        stage.path[place.kind]);
  }

  void find_next(Place& place) {
    start(place) = kInfinity;
    for (std::size_t s : groups_[place.group].stages)
      for (Kind kind : {kForward, kInput, kWeight})
        if (progress(s, place.turn).ready[kind] < kInfinity)
          consider(place, s, kind);
  }

  // Takes it as the place's next action if it can start earlier, or at the same
  // time and is more urgent.
  void consider(Place& place, std::size_t s, Kind kind) {
    const double begin =
        std::max(place.clock, progress(s, place.turn).ready[kind]);
    const double rank = stages_[s].rank[kind];
    double& known = start(place);
    if (begin > known || (begin == known && rank <= place.rank)) return;
    known = begin;
    place.rank = rank;
    place.stage = s;
    place.kind = kind;
  }

  Place* earliest() {
    // In two passes without a jump that depends on the times.
    double first = kInfinity;
    for (double start : starts_) first = std::min(first, start);
    if (first == kInfinity) return nullptr;
    const auto found = std::find(starts_.begin(), starts_.end(), first);
    return &places_[std::size_t(found - starts_.begin())];
  }

  void run_next(Place& place) {
    const std::size_t s = place.stage;
    const Kind kind = place.kind;
    Stage& stage = stages_[s];
    const std::size_t turn = place.turn;
    const std::size_t microbatch =
        progress(s, turn).done[kind]++ * stage.turns + turn;
    const double taken = seconds(work_.stages[s], kind);
    place.clock = start(place) + taken;
    place.left -= taken;
    set_ready(s, turn, kind);
    if (kind == kWeight) set_ready(s, turn, kForward);
    if (with_orders_) {
      ComputeAction action;
      action.stage = StageId(s);
      action.microbatch = MicrobatchId(microbatch);
      action.kind = kComputeKinds[kind];
      order_.orders[place.group].push_back(action);
    }
    if (kind == kForward) {
      for (const Neighbour& user : stage.users)
        pass(place, user, kForward, microbatch);
      arrive(s, kInput, microbatch, place.clock);
    } else if (kind == kInput) {
      for (const Neighbour& maker : stage.makers)
        pass(place, maker, kInput, microbatch);
      arrive(s, kWeight, microbatch, place.clock);
    } else {
      stage.last = std::max(stage.last, place.clock);
      if (--stage.left == 0) reduce(s);
    }
    find_next(place);
  }

  // Sends what the place has just made.
  void pass(Place& from, const Neighbour& to, Kind kind,
            std::size_t microbatch) {
    Place& there = place_of(to.stage, microbatch % stages_[to.stage].turns);
    double arrival = from.clock;
    if (to.is_sent() && &there != &from)
      arrival = work_.is_one_host ? arrival_over_link(from, there, to)
                                  : arrival_over_cards(from, there, to);
    const bool is_next = arrive(to.stage, kind, microbatch, arrival);
    if (is_next && &there != &from) consider(there, to.stage, kind);
  }

  double arrival_over_cards(Place& from, Place& there, const Neighbour& to) {
    const double out = seconds_on_card(from, to.out, from.clock);
    const double in = seconds_on_card(there, to.in, from.clock);
    const double ready = std::max(from.clock, from.out_free);
    const double start = std::max(ready, there.in_free);
    from.out_free = ready + out + held_back_ * (start - ready);
    there.in_free = std::max(there.in_free, from.clock) + in;
    return start + delay_ * std::max(out, in) + work_.latency;
  }

  double arrival_over_link(const Place& from, const Place& there,
                           const Neighbour& to) {
    double& free = link_free_[from.group * groups_.size() + there.group];
    free = std::max(free, from.clock) + std::max(to.out, to.in);
    return free + work_.latency;
  }

  // A message shares the card with a reduction: it takes twice as long, and the
  // reduction ends later by as much as the message takes alone.
  double seconds_on_card(Place& place, double seconds, double time) {
    if (place.reduced <= time) return seconds;
    place.reduced += seconds;
    for (std::size_t s : groups_[place.group].stages) {
      Progress& own = progress(s, place.turn);
      if (own.reduced > time) own.reduced += seconds;
    }
    return 2 * seconds;
  }

  // True if the place's next action of that kind now has all its inputs.
  bool arrive(std::size_t s, Kind kind, std::size_t microbatch, double time) {
    Input& own = input(s, kind, microbatch);
    --own.missing;
    own.time = std::max(own.time, time);
    const std::size_t turns = stages_[s].turns, turn = microbatch % turns;
    if (own.missing > 0 || microbatch / turns != progress(s, turn).done[kind])
      return false;
    set_ready(s, turn, kind);
    return true;
  }

  // Sums the gradients of a stage, after those of earlier ones of its cards.
  void reduce(std::size_t s) {
    const Stage& stage = stages_[s];
    const double taken = work_.stages[s].reduction;
    double start = stage.last;
    if (taken > 0) {
      if (work_.is_one_host) start = std::max(start, card_free_);
      for (std::size_t turn = 0; turn < stage.turns; ++turn)
        start = std::max(start, place_of(s, turn).reduced);
      card_free_ = start + taken;
    }
    for (std::size_t turn = 0; turn < stage.turns; ++turn) {
      progress(s, turn).reduced = start + taken;
      if (taken > 0) place_of(s, turn).reduced = start + taken;
    }
  }

  const HostWork& work_;
  const bool with_orders_;
  const double limit_;
  const std::size_t microbatches_;
  const double delay_;      // of messages, as a multiple
  const double held_back_;  // senders, of the time that messages wait
  std::vector<Stage> stages_;
  std::vector<Progress> progress_;  // by stage and turn
  std::vector<Input> inputs_;       // by stage, kind and microbatch
  std::vector<Group> groups_;
  std::vector<Place> places_;      // by group and turn
  std::vector<double> starts_;     // of their next actions
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
  // Microbatches of the first of the hosts that take turns.
  const auto microbatches = [&](int group) {
    const int turns = work.turns.empty() ? 1 : work.turns[at(group)];
    return double((work.microbatches + turns - 1) / turns);
  };
  for (const HostStageTimes& stage : work.stages) {
    Load& load = loads[at(stage.group)];
    load.compute +=
        (stage.forward + stage.backward_input + stage.backward_weight) *
        microbatches(stage.group);
    load.reductions += stage.reduction;
    load.last = std::min(load.last, stage.reduction + stage.after);
  }
  for (const HostTransfer& each : work.transfers) {
    Load& from = loads[at(work.stages[at(each.from)].group)];
    Load& to = loads[at(work.stages[at(each.to)].group)];
    if (&from == &to) continue;
    // There as an activation, back as a gradient.
    const double sent =
        each.out * microbatches(work.stages[at(each.from)].group);
    const double received =
        each.in * microbatches(work.stages[at(each.to)].group);
    from.out += sent;
    from.in += sent;
    to.in += received;
    to.out += received;
  }
  double largest = 0, reductions = 0;
  for (const Load& load : loads) {
    largest = std::max(largest, load.compute + load.last);
    reductions += load.reductions;
    if (!work.is_one_host)
      largest =
          std::max(largest, load.reductions + std::max(load.out, load.in));
  }
  return work.is_one_host ? std::max(largest, reductions) : largest;
}

}  // namespace pipewright
