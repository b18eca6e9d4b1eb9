// In which order groups of hosts compute the stages that they hold, and when
// the step then ends: list scheduling, some tens of microseconds where the
// simulator takes milliseconds. For host_stages.h, which compares thousands of
// pipelines by it.
//
// A group may hold several stages. Either all its devices do the same at the
// same time, or its hosts take turns: host j of h has the microbatches m with
// m % h == j, and the devices of a host do the same. Whenever a group, or one
// of the hosts that take turns, is free it takes, of the actions whose inputs
// have arrived, the one with the longest path of actions, messages and
// reductions to the end of the step, as far as it is not said to be more or
// less urgent. A network card sends one message at a time and receives one at a
// time. After its last weight gradient a stage sums its gradients. Reductions
// of one group follow each other, and share the card with messages.

#pragma once

#include <array>
#include <vector>

#include "pipewright/base/infinity.h"
#include "pipewright/plan/schedule/schedule.h"

namespace pipewright {

// Seconds, per microbatch unless noted.
struct HostStageTimes {
  int group = 0;
  double forward = 0, backward_input = 0, backward_weight = 0;
  double reduction = 0;  // per step: on the network cards
  double after = 0;      // per step: its latency, and the update
  // Microbatches between their forward and their weight gradient, on each host
  // of those that take turns; 0: no limit.
  int max_in_flight = 0;
  // How much more urgent its forwards, input gradients and weight gradients are
  // than their paths say, as shares of the longest path.
  std::array<double, 3> urgency = {0, 0, 0};
};

// What a stage sends to another, whose gradient comes back the same way:
// seconds per microbatch on the sender's and on the receiver's card.
struct HostTransfer {
  int from = 0, to = 0;
  double out = 0, in = 0;
};

struct HostWork {
  int microbatches = 0, groups = 0;
  std::vector<HostStageTimes> stages;   // in pipeline order
  std::vector<HostTransfer> transfers;  // to later stages
  double latency = 0;                   // of a message between groups
  // Of each group, how many hosts take turns; empty: in no group they do.
  std::vector<int> turns = {};
  // Groups are devices of one host: two groups have links of their own, and the
  // reductions of all groups share one card.
  bool is_one_host = false;
};

struct HostOrder {
  double seconds = 0;  // of the step
  int last_group = 0;  // the one that ends it
  // Per group, also of hosts that take turns; empty unless asked for.
  Orders orders;
};

// A stage computes no microbatch before the stages before it have, as a
// Schedule demands, even if it needs nothing of them. Ends early, with some
// seconds from `limit` on, where the step cannot be shorter than the limit.
HostOrder host_order(const HostWork& work, bool with_orders,
                     double limit = kInfinity);

// No step is shorter: the longest that a group computes, or that its cards are
// busy with messages and reductions.
double host_load(const HostWork& work);

}  // namespace pipewright
