// Random numbers by key: number i of a key's stream is a hash of both, so any
// part of a stream can be drawn anywhere, in any order, with the same bits.

#pragma once

#include <cstdint>
#include <string_view>

namespace pipewright {

class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::string_view name);
  RandomStream(std::uint64_t seed, std::uint64_t a, std::uint64_t b);

  // 64 well-mixed bits (the finaliser of splitmix64, Steele et al., OOPSLA
  // 2014).
  std::uint64_t bits(std::uint64_t index) const;
  double uniform(std::uint64_t index) const;  // in [0, 1)
  double normal(std::uint64_t index) const;   // mean 0, variance 1

 private:
  std::uint64_t key_;
};

}  // namespace pipewright
