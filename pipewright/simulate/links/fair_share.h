// Max-min fair rates: how links divide the bandwidth that they share.
//
// Every message gets as much as its own link and its pools allow, and no rate
// could be larger without making a smaller one smaller still. A pool whose
// messages, each at its limit, ask for no more than the pool has limits nobody.
// So when a message starts or ends there, no other rate changes; in a full pool
// only the rates change of those connected to it through full pools.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pipewright/cluster/cluster.h"

namespace pipewright {

// A message takes `times` its rate from a pool: more than one where the ring of
// a reduction crosses the shared resource more than once.
struct PoolUse {
  std::int32_t pool = 0;
  double times = 1;
  auto operator<=>(const PoolUse&) const = default;
};

// Bytes per second of the two pools of each resource: one per direction; a
// half-duplex resource uses only the first, for both.
std::vector<double> pools_of(const std::vector<SharedResource>& resources);

// Adds what one link uses, each pool once, to `sum`, which is sorted by pool.
void add_pool_uses(const std::vector<Link::Use>& uses,
                   const std::vector<SharedResource>& resources,
                   std::vector<PoolUse>& sum);

// The rates of messages that start and end. A link carries one message at a
// time, so the message is named by the number of its link.
class FairShares {
 public:
  FairShares(const std::vector<double>& pools, std::size_t num_links);

  // `limit` is the bandwidth of the link itself in bytes per second; infinite
  // where only a pool limits it. The uses must outlive the message.
  void start(std::int32_t link, double limit, std::span<const PoolUse> uses);
  void end(std::int32_t link);

  // Computes the rates after messages started or ended. Returns the links whose
  // rate changed; the rate of a message that just started was 0.
  const std::vector<std::int32_t>& update_rates();

  double rate(std::int32_t link) const { return messages_[link].rate; }

 private:
  struct Message {
    double limit = 0;
    std::span<const PoolUse> uses;
    double rate = 0, rate_before = 0;
    bool is_open = false;  // its new rate is not known yet
  };
  struct Pool {
    double bandwidth = 0;
    std::vector<std::int32_t> links;  // with a message that uses it now
    bool is_full = false;             // at their limits they would ask for more
    bool has_changed = false;         // a message started or ended
    bool is_divided = false;          // by this update
    double left = 0;
    double claimed = 0;  // by open messages, per unit of rate
    double level = 0;    // left / claimed
  };

  void mark_changed(std::int32_t pool);
  double demand(const Pool& pool, std::int32_t number) const;
  void open(std::int32_t link);
  void open_all(const Pool& pool);
  void open_connected();
  void divide();
  double next_level();
  bool is_limited(const Message& message, double level) const;
  void close(Message& message, double level);

  std::vector<Pool> pools_;
  std::vector<Message> messages_;  // per link
  std::vector<std::int32_t> changed_pools_;
  std::vector<std::int32_t> started_;  // links
  std::vector<std::int32_t> open_;     // links
  std::vector<std::int32_t> divided_;  // pools
  std::vector<std::int32_t> changed_;  // links
};

}  // namespace pipewright
