// The checksum of a message between ranks. It finds every error within one word
// of 8 bytes, such as a bit that was flipped, and others but for one in 2^64:
// each word is mixed in by a bijection, so that no single change gets lost.

#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string_view>

#include "pipewright/base/error.h"
#include "pipewright/runtime/tensors.h"

namespace pipewright {

// A message has arrived with other bits than it was sent with.
class CorruptedMessage : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

Error error_of(const CorruptedMessage& message);

class MessageChecksum {
 public:
  void add(const void* data, std::size_t bytes);
  void add(std::uint64_t word) { sum_ = mixed(sum_, word); }
  std::uint64_t value() const { return sum_; }

 private:
  static std::uint64_t mixed(std::uint64_t sum, std::uint64_t word) {
    const std::uint64_t product = (sum ^ word) * 0x9E3779B97F4A7C15U;
    return product << 29 | product >> 35;
  }

  std::uint64_t sum_ = 0x243F6A8885A308D3U;
};

std::uint64_t checksum_of(std::string_view text);
// Of all tensors, which are in memory of the host without gaps.
std::uint64_t checksum_of(const Values& values);

}  // namespace pipewright
