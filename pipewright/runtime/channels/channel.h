// One worker's end of its connections with all others: what an action of a
// program may do to the outside.
//
// A worker sends without waiting, unless it is far ahead of the receiver (see
// send_capacity.h), says which receives it is ready for, and else blocks only
// where it takes what has to be there. When any worker fails, all blocking
// calls of all workers end with Cancelled.
//
// Contracts, checked by one suite over every implementation: a tensor taken is
// the tensor sent, bit for bit; messages of one transfer may be taken in any
// order of their keys; a sender may drop its tensor right after sending but may
// not write to it.

#pragma once

#include <cstdint>
#include <exception>
#include <vector>

#include "pipewright/base/ids.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/tensors.h"

namespace pipewright {

class TensorHeap;

// Another worker has failed; this one has nothing to add.
class Cancelled : public std::exception {
 public:
  const char* what() const noexcept override { return "cancelled"; }
};

// The gradient of one use of a parameter, as handed to a reduction.
struct Contribution {
  ParameterId parameter;
  LayerId layer;
  at::Tensor gradient;
};

class Channel {
 public:
  virtual ~Channel() = default;

  // The worker comes to this action, whose microbatch counts from the start of
  // training: a chance to move messages on, or to note where the worker is.
  virtual void before(const Action& action, std::int64_t microbatch) {
    static_cast<void>(action), static_cast<void>(microbatch);
  }

  // Of all workers, where they are threads of one process and tensors are
  // handed over: a message counts as memory of who gets it from the moment that
  // it is sent and the receive is posted. Before a run, at any one end.
  virtual void count_in(std::vector<TensorHeap*> heaps) {
    static_cast<void>(heaps);
  }

  // `key` is the microbatch, or the version if the transfer carries weights.
  // Tensors leave `values` and come into it; the lists themselves may stay with
  // the worker, whose next message then finds their memory.
  virtual void send(TransferId transfer, std::int32_t key, Values&& values) = 0;
  virtual void post(TransferId transfer, std::int32_t key) = 0;
  virtual void take(TransferId transfer, std::int32_t key, Values& values) = 0;
  Values take(TransferId transfer, std::int32_t key) {
    Values values;
    take(transfer, key, values);
    return values;
  }

  // Hands in this worker's part of a reduction for the minibatch that starts
  // with `microbatch`, once. What was said of lists holds here, too.
  virtual void contribute(ReductionId reduction, std::int32_t microbatch,
                          std::vector<Contribution>&& contributions) = 0;
  // The sums, one per parameter of the reduction; asked for once by each of
  // the worker's stages that take part. Shared: not to be written to.
  virtual void reduced(ReductionId reduction, std::int32_t microbatch,
                       Tensors& sums) = 0;
  Tensors reduced(ReductionId reduction, std::int32_t microbatch) {
    Tensors sums;
    reduced(reduction, microbatch, sums);
    return sums;
  }

  // Makes every call of every worker that sends or blocks, now and later, throw
  // Cancelled.
  virtual void cancel() = 0;
};

}  // namespace pipewright
