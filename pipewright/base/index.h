// An int that is not negative, as an index into a vector: algorithms count in
// int, vectors in size_t.

#pragma once

#include <cstddef>
#include <cstdint>

namespace pipewright {

constexpr std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

}  // namespace pipewright
