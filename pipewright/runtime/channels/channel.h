// A worker's end of its connections to all other workers: everything that an
// action of a program does outside its own worker.
//
// A send returns at once, unless the sender is far ahead of the receiver (see
// send_capacity.h). A worker posts the receives that it is ready for, and
// blocks only when it takes a message that has not arrived. When any worker
// fails, all blocking calls of all workers throw Cancelled.
//
// One test suite checks this contract for every implementation: a tensor taken
// is the tensor sent, bit for bit; messages of one transfer may be taken in any
// order of their keys; a sender may drop its tensor right after sending it but
// must not write to it.

#pragma once

#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

#include "pipewright/base/ids.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/tensors.h"

namespace pipewright {

// Another worker has failed; this one has nothing to add.
class Cancelled : public std::exception {
 public:
  const char* what() const noexcept override { return "cancelled"; }
};

// The gradient of one use of a parameter: what a worker adds to a reduction.
struct Contribution {
  ParameterId parameter;
  LayerId layer;
  at::Tensor gradient;
};

class Channel {
 public:
  virtual ~Channel() = default;

  // The worker's tensors are at this place. A channel between processes gives
  // it what it takes there, wherever it was made; called before anything is
  // posted. Channels of one process leave that to copying_channels().
  virtual void receive_at(at::Device place) { static_cast<void>(place); }

  // Called before each action of the worker; `microbatch` counts from the start
  // of training. An implementation may move messages here, or record where the
  // worker is.
  virtual void before(const Action& action, std::int64_t microbatch) {
    static_cast<void>(action), static_cast<void>(microbatch);
  }

  // `key` is the microbatch, or the version if the transfer carries weights.
  // send() moves the tensors out of `values` and take() moves them in. The
  // lists stay with the worker, so that its next message reuses their memory.
  // Tensors that `values` has before take() are where a channel that copies
  // messages may copy to; the others leave them.
  virtual void send(TransferId transfer, std::int32_t key, Values&& values) = 0;
  virtual void post(TransferId transfer, std::int32_t key) = 0;
  virtual void take(TransferId transfer, std::int32_t key, Values& values) = 0;
  Values take(TransferId transfer, std::int32_t key) {
    Values values;
    take(transfer, key, values);
    return values;
  }

  // As take(), of a message that the worker will soon let go of: it need not be
  // copied.
  virtual void borrow(TransferId transfer, std::int32_t key, Values& values) {
    take(transfer, key, values);
  }

  // As send(), of tensors that stay where they are until reuse_messages():
  // a receiver that can read them there need not copy them.
  virtual void lend(TransferId transfer, std::int32_t key, Values&& values) {
    send(transfer, key, std::move(values));
  }
  // Whether the message of the transfer that was taken last is where its sender
  // has it.
  virtual bool is_lent(TransferId) const { return false; }
  // The device has been given all that reads lent messages taken so far. Those
  // that the worker has borrowed and let go of are returned, too.
  virtual void return_messages() {}
  // What this worker sends from now on is in memory that its device writes to
  // again in the next step, before which this is called, too: blocks until what
  // it has sent from there has been copied or returned, where messages of one
  // process are not handed over.
  virtual void reuse_messages() {}

  // Adds this worker's part to a reduction, once for the minibatch that starts
  // with `microbatch`. The list stays with the worker, as above.
  virtual void contribute(ReductionId reduction, MicrobatchId microbatch,
                          std::vector<Contribution>&& contributions) = 0;
  // Waits for the sums, one per parameter of the reduction. Called once by each
  // of the worker's stages that read them. The tensors are shared: the caller
  // must not write to them.
  virtual void reduced(ReductionId reduction, MicrobatchId microbatch,
                       Tensors& sums) = 0;
  Tensors reduced(ReductionId reduction, MicrobatchId microbatch) {
    Tensors sums;
    reduced(reduction, microbatch, sums);
    return sums;
  }

  // From now on every call of every worker that sends or blocks throws
  // Cancelled.
  virtual void cancel() = 0;
};

}  // namespace pipewright
