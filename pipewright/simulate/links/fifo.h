// A queue in a ring buffer: first in, first out. It keeps its memory when it
// becomes empty, for it fills and drains again and again.

#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace pipewright {

template <typename T>
class Fifo {
 public:
  bool empty() const { return head_ == tail_; }
  std::size_t size() const { return tail_ - head_; }
  const T& front() const { return ring_[head_ & mask_]; }
  void push(const T& element) {
    if (size() == ring_.size()) grow();
    ring_[tail_++ & mask_] = element;
  }
  T pop() { return ring_[head_++ & mask_]; }

 private:
  void grow() {
    std::vector<T> larger(std::max<std::size_t>(8, 2 * ring_.size()));
    const std::size_t mask = larger.size() - 1;
    for (std::size_t i = head_; i != tail_; ++i)
      larger[i & mask] = ring_[i & mask_];
    ring_.swap(larger);
    mask_ = mask;
  }

  std::vector<T> ring_;   // its size is a power of two, or 0
  std::size_t mask_ = 0;  // its size - 1
  std::size_t head_ = 0, tail_ = 0;
};

}  // namespace pipewright
