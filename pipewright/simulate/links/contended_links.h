// Links whose next message depends on what else wants them: several kinds of
// transfers in one direction, both directions of a half-duplex pair, shared
// bandwidth.
//
// They decide in the order of time. The rules:
//   - A free link starts, of the messages that wait for it, one of the kind
//     with the highest priority; of one kind the one that has waited longest;
//     of two that came together the one of the lower channel.
//   - Links that become free or requested at the same time decide together,
//     after all that happens at that time without them.
//   - Messages and reductions on their links divide shared bandwidth fairly
//     (fair_share.h).
//
// Where nothing is shared, a decision leads to the next request no sooner than
// after the shortest transfer. So all decisions within that time are made in
// one round, each link for itself.

#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "pipewright/simulate/links/fair_share.h"
#include "pipewright/simulate/links/fifo.h"
#include "pipewright/simulate/links/timed_network.h"

namespace pipewright {

struct Message {
  std::int32_t transfer = 0;  // or a reduction, as in TimedNetwork::transfers
  std::int32_t key = 0;
  double sent = 0;   // by the worker; later than the start if it streams
  double start = 0;  // on the link; until that is known, of waiting for it
  double end = 0;    // the link is free again
  double arrival = 0;
};

// When a link without shares is free again. A message that streams ends with
// the work that makes it, or later.
inline double end_on_link(const Message& message,
                          const TimedTransfer& transfer) {
  return std::max(message.start + transfer.seconds_on_link, message.sent);
}

class ContendedLinks {
 public:
  // `network` must outlive this object. `all`: direct links are used, too.
  ContendedLinks(const TimedNetwork& network, bool all);

  // The message waits for its link from `message.start` on. That is not before
  // the last round, nor before an earlier message of the channel.
  void request(const Message& message);

  // Ends or starts what comes next in time, and appends every message whose
  // arrival is now known. False when nothing is waiting or on its way.
  bool next_round(std::vector<Message>& arrived);

 private:
  struct Active {  // on a link that shares bandwidth
    Message message;
    double rate = 0;
    double left = 0;  // bytes, at `since`
    double since = 0;
    double end = 0;
  };
  struct Waiting {
    double start, sent;
    std::int32_t transfer, key;
  };
  struct ChannelQueue {
    TransferKind kind;
    std::int32_t channel = 0;
    Fifo<Waiting> waiting;
  };
  struct LinkState {
    std::int32_t first_queue = 0, end_queue = 0;  // by priority
    double free_at = 0;
  };

  double earliest_start() const;
  void update_next_start(std::int32_t link);
  void end_all(double time, std::vector<Message>& arrived);
  void start_all(double from, double until, std::vector<Message>& arrived);
  Message take_next(std::int32_t link, double time);
  void start(std::int32_t link, Message message, std::vector<Message>& arrived);
  void update_rates(double time);

  const TimedNetwork& network_;
  double lookahead_ = 0;
  // When each link can next start a message, as far as is known; infinity if
  // none waits, or if the link shares bandwidth and is busy.
  std::vector<double> next_start_;
  std::vector<LinkState> links_;
  std::vector<ChannelQueue> queues_;           // those of a link together
  std::vector<std::int32_t> queue_of_;         // per channel
  std::vector<std::optional<Active>> active_;  // per link
  std::vector<std::int32_t> sharing_;          // links with an active message
  FairShares shares_;
};

}  // namespace pipewright
