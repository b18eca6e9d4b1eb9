// Random numbers by key: number i of a key's stream is a hash of both, so any
// part of a stream can be drawn anywhere, in any order, with the same bits.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace pipewright {

class RandomStream {
 public:
  // Number i: the key plus (i + 1) times the stride, mixed by
  // z ^= z >> shift, z *= factor, and so on; the last shift has no factor.
  static constexpr std::uint64_t kStride = 0x9e3779b97f4a7c15ULL;
  static constexpr std::uint64_t kFactors[] = {0xbf58476d1ce4e5b9ULL,
                                               0x94d049bb133111ebULL};
  static constexpr int kShifts[] = {30, 27, 31};

  RandomStream(std::uint64_t seed, std::string_view name);
  RandomStream(std::uint64_t seed, std::uint64_t a, std::uint64_t b);

  // 64 well-mixed bits (the finaliser of splitmix64, Steele et al., OOPSLA
  // 2014).
  std::uint64_t bits(std::uint64_t index) const;
  double uniform(std::uint64_t index) const;  // in [0, 1)
  double normal(std::uint64_t index) const;   // mean 0, variance 1
  std::uint64_t key() const { return key_; }

 private:
  std::uint64_t key_;
};

// What a layer draws from, but for the microbatch: its own stream, or that of
// one of its calls.
struct LayerStream {
  std::uint64_t seed = 0, layer = 0;
  std::optional<std::uint64_t> call = {};

  RandomStream of(std::int64_t microbatch) const;
};

}  // namespace pipewright
