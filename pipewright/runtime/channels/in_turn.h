// What is kept of a reduction for each minibatch under way. Minibatches take
// turns, so that each place has soon seen how much there is to hold, and its
// lists grow no more.

#pragma once

#include <cstdint>
#include <deque>

namespace pipewright {

constexpr std::int32_t kNoMicrobatch = -1;

// `Each` names the first microbatch of its minibatch in `microbatch`, and says
// kNoMicrobatch there when it is over. It stays where it is.
template <class Each>
class InTurn {
 public:
  Each& of(std::int32_t microbatch, int num_microbatches) {
    for (Each& known : all_)
      if (known.microbatch == microbatch) return known;
    Each& made = unused(
        static_cast<std::size_t>(microbatch / num_microbatches) % all_.size());
    made.microbatch = microbatch;
    return made;
  }

 private:
  Each& unused(std::size_t first) {
    for (std::size_t i = 0; i < all_.size(); ++i)
      if (Each& next = all_[(first + i) % all_.size()];
          next.microbatch == kNoMicrobatch)
        return next;
    return all_.emplace_back();
  }

  // One may have to be read yet while the next is handed in.
  std::deque<Each> all_ = std::deque<Each>(2);
};

}  // namespace pipewright
