// What pipelines over groups of whole hosts cost: computing, messages over the
// hosts' network cards, reductions. For host_stages.h.

#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "pipewright/base/index.h"
#include "pipewright/planners/auto/host_order.h"
#include "pipewright/planners/cost_table.h"
#include "pipewright/planners/pipeline.h"

namespace pipewright {

// A stage's end, as an index of a cut, the group of hosts that holds it, and in
// which order the group computes.
struct HostStage {
  int end = 0, group = 0;
  std::array<double, 3> urgency = {0, 0, 0};  // as in HostStageTimes
};

struct HostShape {
  int microbatch = 0;  // of hosts that take turns: of all devices of a host
  std::vector<HostStage> stages;
  std::vector<int> hosts;  // per group

  int first(std::size_t stage) const {
    return stage == 0 ? 0 : stages[stage - 1].end;
  }
};

// What groups consist of: hosts, each with a network card; or the devices of
// one host, with a link between any two of them and one card for all.
struct HostIslands {
  int count = 0, max_devices = 0;
  double rate = 0, latency = 0;  // of messages: bytes per second, seconds
  double ring_rate = 0, ring_latency = 0;
  bool is_one_host = false;
  // Whether the hosts of a group take turns (host_order.h).
  Replication replication = Replication::Split;

  bool take_turns() const { return replication == Replication::Rotate; }
};

class HostCosts {
 public:
  // For one of `copies` equal groups of hosts. The problem must outlive this
  // object.
  HostCosts(const Problem& group, int copies, const HostIslands& islands,
            CostTable table);

  int num_hosts() const { return islands_.count; }
  int last() const { return static_cast<int>(cuts_.size()) - 1; }
  bool take_turns() const { return islands_.take_turns(); }

  // The sizes that a shape's microbatch can have, and how many there are then.
  std::vector<int> microbatches() const;
  int num_microbatches(int microbatch) const {
    return group_.minibatch / microbatch;
  }

  // Seconds per step of one host per group for the layers between two cuts: to
  // compute them, or to send what crosses their ends over its card if that
  // takes longer.
  double load(int first, int end) const {
    return std::max(compute(first, end), exchanged_[at(first)][at(end)]);
  }
  double compute(int first, int end) const {
    return compute_[at(first)][at(end)];
  }
  // Over the network cards, with its latency; within one host it is not
  // counted.
  double reduction(int first, int end, int hosts) const;
  // Whether each device has a sample of a microbatch.
  bool can_split(int microbatch, int hosts) const {
    return num_sharing(hosts) <= microbatch;
  }

  // None if a group has more devices than a microbatch has samples, or too
  // little memory for its weights and one microbatch.
  std::optional<HostWork> work(const HostShape& shape);
  // The step, as far as host_order.h knows; `limit` or more if it cannot be
  // shorter than that.
  HostOrder predicted(const HostShape& shape, double limit);

  // A microbatch of hosts that take turns is one for each device there: such
  // devices take turns themselves.
  Pipeline pipeline(const HostShape& shape) const;
  // The order for that pipeline.
  Result<Schedule> schedule(const HostShape& shape);

 private:
  // What a layer makes for other layers, in their order.
  struct Value {
    int layer = 0;
    double bytes = 0;  // at the table's microbatch size
    std::vector<int> users;
  };
  // Sums over the layers before each cut, for one number of samples.
  struct Sums {
    std::vector<double> forward, input, weight, update;
  };

  // Of one device of each group: what its stages hold always, and what they
  // keep of each microbatch, in bytes.
  struct GroupMemory {
    double states = 0, kept = 0;
  };
  // How many samples' worth of time a microbatch takes on the card of a sender
  // and of a receiver.
  struct CardSamples {
    double out = 0, in = 0;
  };

  static std::vector<Value> values_of(const Profile& profile, int microbatch);
  std::vector<double> exchanged_bytes(int first) const;
  // Devices that share a microbatch.
  int num_sharing(int hosts) const {
    return (islands_.take_turns() ? 1 : hosts) * islands_.max_devices;
  }
  // Devices with the stages of a group, in all copies.
  int num_replicas(int hosts) const {
    return hosts * copies_ * islands_.max_devices;
  }
  int microbatches_per_turn() const {
    return islands_.take_turns() ? islands_.max_devices : 1;
  }
  double seconds_on_cards(int first, int end, int hosts) const;
  double ring_latency(int hosts) const;
  double kept(int first, int end);
  bool limit_in_flight(const HostShape& shape, HostWork& work);
  HostStageTimes times_of(const HostShape& shape, std::size_t stage);
  void add_transfers(const HostShape& shape, HostWork& work);
  const CardSamples& samples_on_cards(int microbatch, int from, int to);
  const Sums& sums_of(int samples);

  const Problem& group_;
  const int copies_;
  const HostIslands islands_;
  const CostTable table_;
  const std::vector<int> cuts_;
  const std::vector<Value> values_;
  std::vector<std::vector<double>> compute_, exchanged_;  // by first and end
  // By hosts: how often a host's card sends the bytes that are summed.
  std::vector<double> ring_share_;
  std::vector<std::vector<Bytes>> kept_;  // by first; empty: unknown
  std::map<int, Sums> sums_;              // by samples
  // By microbatch, and the hosts of sender and receiver.
  std::map<std::tuple<int, int, int>, CardSamples> card_samples_;
};

}  // namespace pipewright
