// Where a worker's tensors live: what it frees is kept, by size, and is what it
// allocates next, still in a near cache and without a call to the system. Every
// step allocates the same sizes in the same order, so after the first ones no
// memory is asked for.
//
// A heap also counts: what a worker's tensors take is measured here. A tensor
// that is handed over to another worker counts there from then on, though its
// memory comes back to the heap that it was made in.

#pragma once

#include <ATen/core/Tensor.h>

#include "pipewright/base/units.h"

namespace pipewright {

struct HeapBlocks;

class TensorHeap {
 public:
  TensorHeap();
  ~TensorHeap();  // tensors may live on
  TensorHeap(const TensorHeap&) = delete;
  TensorHeap& operator=(const TensorHeap&) = delete;

  // What the calling thread allocates from now on comes from this heap.
  void serve_this_thread();

  // The tensor's storage counts here from now on. Its holders are not
  // using it meanwhile.
  void take_over(const at::Tensor& tensor);

  Bytes held() const;      // by tensors, now
  Bytes peak() const;      // the most, since restart_peak()
  Bytes reserved() const;  // also by what is kept for the next ones
  void restart_peak();

 private:
  // Live until the last tensor of it is gone, and no thread is served.
  HeapBlocks* blocks_;
};

}  // namespace pipewright
