// Counter-based random numbers; see random_stream.h.

#include "pipewright/runtime/random_stream.h"

#include <cmath>
#include <numbers>

namespace pipewright {
namespace {

constexpr std::uint64_t kGolden = RandomStream::kStride;

std::uint64_t mixed(std::uint64_t z) {
  constexpr auto& kShifts = RandomStream::kShifts;
  constexpr auto& kFactors = RandomStream::kFactors;
  z = (z ^ (z >> kShifts[0])) * kFactors[0];
  z = (z ^ (z >> kShifts[1])) * kFactors[1];
  return z ^ (z >> kShifts[2]);
}

std::uint64_t combined(std::uint64_t key, std::uint64_t next) {
  return mixed(key + kGolden + mixed(next + kGolden));
}

}  // namespace

RandomStream::RandomStream(std::uint64_t seed, std::string_view name)
    : key_(mixed(seed + kGolden)) {
  for (const char c : name)
    key_ = combined(key_, static_cast<unsigned char>(c));
}

RandomStream::RandomStream(std::uint64_t seed, std::uint64_t a, std::uint64_t b)
    : key_(combined(combined(mixed(seed + kGolden), a), b)) {}

std::uint64_t RandomStream::bits(std::uint64_t index) const {
  return mixed(key_ + kGolden * (index + 1));
}

double RandomStream::uniform(std::uint64_t index) const {
  return static_cast<double>(bits(index) >> 11) * 0x1p-53;
}

// Box and Muller's transform; 1 - u is in (0, 1], so the logarithm is finite.
double RandomStream::normal(std::uint64_t index) const {
  const double radius = std::sqrt(-2 * std::log(1 - uniform(2 * index)));
  return radius * std::cos(2 * std::numbers::pi * uniform(2 * index + 1));
}

RandomStream LayerStream::of(std::int64_t microbatch) const {
  const RandomStream of_layer(seed, static_cast<std::uint64_t>(microbatch),
                              layer);
  return call ? RandomStream(of_layer.bits(*call), 0, 0) : of_layer;
}

}  // namespace pipewright
