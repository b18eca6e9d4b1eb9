// What messages travel over: the transfers of a program with their times, the
// channels that keep messages in order, the links they occupy, and the
// bandwidth that links share. simulate.h explains the words.

#pragma once

#include <cstdint>
#include <vector>

#include "pipewright/plan/program/program.h"
#include "pipewright/simulate/costs.h"
#include "pipewright/simulate/links/fair_share.h"

namespace pipewright {

// What a key counts: microbatches advance by num_microbatches with each
// repetition; versions and minibatches by one.
enum class KeyBase : std::uint8_t {
  Microbatch,
  Repetition,
};

struct TimedChannel {
  WorkerId from, to;  // none for the channel of a reduction
  TransferKind kind = TransferKind::Activation;
  std::int32_t link = -1;  // none if its transfers take latency only
};

struct TimedLink {
  std::vector<std::int32_t> channels;
  bool is_shared = false;  // some transfer on it shares a pool with other links
  // One channel and nothing shared: when a message starts follows from its own
  // send and receive and from the message before it, whatever else happens.
  bool is_direct() const { return channels.size() == 1 && !is_shared; }
};

// A transfer of the program, or a reduction: it, too, is carried when all its
// workers have contributed.
struct TimedTransfer {
  double seconds_on_link = 0;  // if nobody shares
  double latency = 0;
  double bytes = 0;
  double limit = 0;  // bytes per second, if nobody shares
  std::int32_t first_use = 0, num_uses = 0;  // in pool_uses: what it shares
  std::int32_t channel = 0;
  KeyBase base = KeyBase::Microbatch;

  double seconds() const { return seconds_on_link + latency; }
};

struct TimedNetwork {
  std::vector<TimedTransfer> transfers;  // as in Program, then reductions
  std::int32_t first_reduction = 0;
  std::vector<TimedChannel> channels;
  std::vector<TimedLink> links;
  std::vector<double> pools;  // bytes per second
  std::vector<PoolUse> pool_uses;

  const TimedLink* link_of(const TimedTransfer& transfer) const {
    const std::int32_t link = channels[transfer.channel].link;
    return link < 0 ? nullptr : &links[link];
  }
  // Every link is direct: the timeline is a longest path.
  bool is_direct() const;
};

// A pool that only one link uses is not shared; it limits what passes it.
TimedNetwork make_timed_network(const Program& program, const Costs& costs);

}  // namespace pipewright
