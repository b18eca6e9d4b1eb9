// A number known not to be negative, as an index: vectors count in size_t, the
// algorithms over them in int.

#pragma once

#include <cstddef>
#include <cstdint>

namespace pipewright {

constexpr std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

}  // namespace pipewright
