// A queue in a circular buffer: once it is large enough it allocates no more.
// std::deque allocates and frees a block every few elements.

#pragma once

#include <utility>
#include <vector>

namespace pipewright {

template <class T>
class Ring {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  T& front() { return places_[first_]; }

  void push_back(T value) {
    if (size_ == places_.size()) grow(2 * size_ + 1);
    places_[(first_ + size_++) % places_.size()] = std::move(value);
  }
  T pop_front() {
    T value = std::exchange(places_[first_], T());
    first_ = (first_ + 1) % places_.size();
    --size_;
    return value;
  }
  void reserve(std::size_t size) {
    if (size > places_.size()) grow(size);
  }

 private:
  void grow(std::size_t size) {
    std::vector<T> more(size);
    for (std::size_t i = 0; i < size_; ++i)
      more[i] = std::move(places_[(first_ + i) % places_.size()]);
    places_ = std::move(more);
    first_ = 0;
  }

  std::vector<T> places_;
  std::size_t first_ = 0, size_ = 0;
};

}  // namespace pipewright
