// A reduction of three or more ranks, in the fixed order. For channels/ alone.
//
// The ranks share the work: each adds up its slice of every gradient, in the
// order of reduction.h, and sends the sum to all others. So a rank sends
// 2 (r - 1) / r of the gradients' bytes, as around a ring, where sending all to
// all would be r - 1 times as many.
//
// Others wait for the slice of a worker, whatever that worker waits for itself.
// So it adds up whatever has arrived between its actions, and whenever it
// waits.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/channels/channel.h"
#include "pipewright/runtime/channels/message_engine.h"
#include "pipewright/runtime/channels/minibatch_slots.h"
#include "pipewright/runtime/channels/rank_messages.h"
#include "pipewright/runtime/channels/reduction.h"

namespace pipewright {

// One worker's part. All calls come from its thread, without the engine's
// mutex.
class SlicedReduction {
 public:
  // `to_add` are addresses of gradients, `to_tell` of sums, both of the ranks
  // that take part in ascending order; one of them is this worker's own. The
  // engine, the links and the program must outlive it.
  struct Addresses {
    std::vector<MessageAddress> to_add, to_tell;
  };
  SlicedReduction(MessageEngine& engine, LinkMessages& links,
                  const Reduction& reduction, WorkerId worker,
                  const Addresses& addresses, int num_microbatches,
                  int num_readers, const std::string& name);

  void contribute(MicrobatchId microbatch,
                  std::vector<Contribution>&& contributions);
  void add_up_arrived();
  // Calls wait_until() of the engine, which must call add_up_arrived().
  void reduced(MicrobatchId microbatch, Tensors& sums);

 private:
  using Receive = MessageEngine::Receive;

  // A rank that takes part; the ends are null if it is this one.
  struct Rank {
    WorkerId worker;
    std::unique_ptr<MessageSender> sender;         // of its slices to it
    std::unique_ptr<MessageReceiver> slices, sum;  // own slices, its sum
  };
  // Of one minibatch. Keeps its lists when it has ended.
  struct Running {
    MicrobatchId microbatch;
    bool is_begun = false, is_added = false;
    std::vector<WorkerContributions> parts;  // by rank: the own slices
    std::vector<Receive*> slices, sum;       // by rank
    Tensors own_sum;                         // of the slices
    Tensors sums;
    int num_read = 0;
    void end();
  };

  at::Tensor slice(const at::Tensor& flat, std::size_t rank) const;
  void begin(Running& running);
  bool has_arrived(const Running& running, bool is_sum);
  void add_up(Running& running);
  void join(Running& running);

  MessageEngine& engine_;
  const Reduction& reduction_;
  const int num_microbatches_, num_readers_;
  std::size_t own_ = 0;  // this worker's place among the ranks
  std::vector<Rank> ranks_;
  std::unique_ptr<MessageSender> teller_;  // of the own sum, to all others
  MinibatchSlots<Running> running_;
  std::vector<Running*> to_add_up_;
  std::vector<std::vector<std::int64_t>> sizes_;  // by sum
  std::vector<Values> values_;                    // by rank: what is sent
  ParameterUses uses_;
};

}  // namespace pipewright
